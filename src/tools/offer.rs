//! Which of the tools a server has: what is not named does not exist for its clients.

use super::{TOOLS, Tool};
use crate::error::{ConfigError, shown};

/// Tools, each once, in the order of the table.
#[derive(Debug, Clone)]
pub(crate) struct Offer(Vec<&'static Tool>);

impl Default for Offer {
    fn default() -> Self {
        Self(TOOLS.iter().collect())
    }
}

impl Offer {
    /// Those of its tools that are named, or are in a named set: `read-only`, `default`, `all`.
    pub(crate) fn narrowed<S: AsRef<str>>(&self, names: impl IntoIterator<Item = S>) -> Result<Self, ConfigError> {
        let mut wanted = vec![false; self.0.len()];
        for name in names {
            let name = name.as_ref();
            let mut known = matches!(name, "read-only" | "default" | "all");
            for (wanted, tool) in wanted.iter_mut().zip(self.iter()) {
                let named = match name {
                    "read-only" => !tool.writes,
                    "default" | "all" => true,
                    name => name == tool.name,
                };
                *wanted |= named;
                known |= named;
            }
            if !known {
                return Err(ConfigError::UnknownTool(shown(name, 80)));
            }
        }
        let offer: Vec<_> = self.iter().zip(wanted).filter_map(|(tool, wanted)| wanted.then_some(tool)).collect();
        if offer.is_empty() { Err(ConfigError::NoTools) } else { Ok(Self(offer)) }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&'static Tool> {
        self.iter().find(|tool| tool.name == name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static Tool> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(wanted: &[&str]) -> Vec<&'static str> {
        Offer::default().narrowed(wanted).unwrap().iter().map(|tool| tool.name).collect()
    }

    #[test]
    fn an_offer_holds_what_was_named_each_once_in_the_order_of_the_table() {
        let all: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
        assert_eq!(
            names(&["read_text_file", "list_directory", "read_text_file"]),
            ["list_directory", "read_text_file"]
        );
        assert_eq!(names(&["read-only"]), ["list_directory", "search_files", "search_text", "read_text_file"]);
        assert_eq!(names(&["write_text_file", "read-only"]), all);
        assert_eq!(names(&["default"]), all);
        assert_eq!(names(&["all"]), all);
    }

    #[test]
    fn an_offer_can_only_narrow() {
        let reader = Offer::default().narrowed(["read_text_file", "search_text"]).unwrap();
        let again = |wanted: &str| reader.narrowed([wanted]).map(|offer| offer.iter().count());
        assert_eq!(again("all"), Ok(2));
        assert_eq!(again("search_text"), Ok(1));
        assert_eq!(again("write_text_file"), Err(ConfigError::UnknownTool("write_text_file".to_owned())));
        let writer = Offer::default().narrowed(["write_text_file"]).unwrap();
        assert_eq!(writer.narrowed(["read-only"]).unwrap_err(), ConfigError::NoTools);
    }

    #[test]
    fn an_unknown_name_and_no_name_are_refused() {
        for name in ["nope", "", "Read-only", "read_text_file ", "read_text_file,search_text"] {
            assert_eq!(Offer::default().narrowed([name]).unwrap_err(), ConfigError::UnknownTool(name.to_owned()));
        }
        assert_eq!(Offer::default().narrowed([""; 0]).unwrap_err(), ConfigError::NoTools);
    }
}
