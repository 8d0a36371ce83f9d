//! A call's arguments, checked against the published schema's names and the contract's texts.

use serde_json::{Map, Value};

use crate::error::{ToolError, shown};
use crate::path::RelPath;

/// Longest query, in bytes.
pub(super) const MAX_QUERY: usize = 256;

/// Arguments whose names are known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arguments<'a>(&'a Map<String, Value>);

impl<'a> Arguments<'a> {
    /// Refuses a name that the tool does not know.
    pub(super) fn new(given: &'a Map<String, Value>, known: &[&str]) -> Result<Self, ToolError> {
        match given.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(Self(given)),
            Some(name) => Err(bad(format!("unknown argument: {}", shown(name, 80)))),
        }
    }

    pub(super) fn optional_string(self, name: &str) -> Result<Option<&'a str>, ToolError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(bad(format!("{name} must be a string"))),
        }
    }

    pub(super) fn string(self, name: &str) -> Result<&'a str, ToolError> {
        self.optional_string(name)?.ok_or_else(|| bad(format!("{name} must be a string")))
    }

    /// The optional directory or file to work beneath; the root when absent.
    pub(super) fn scope(self) -> Result<RelPath, ToolError> {
        RelPath::parse(self.optional_string("path")?.unwrap_or_default())
    }

    /// The path of a file.
    pub(super) fn file(self) -> Result<RelPath, ToolError> {
        let path = RelPath::parse(self.string("path")?)?;
        if path.is_root() { Err(bad("path must name a file".to_owned())) } else { Ok(path) }
    }

    /// A literal to search for.
    pub(super) fn query(self) -> Result<&'a str, ToolError> {
        match self.0.get("query") {
            Some(Value::String(query)) if query.is_empty() => {}
            Some(Value::String(query)) if query.len() > MAX_QUERY || query.contains(['\n', '\r']) => {
                return Err(bad("query must be one line of at most 256 UTF-8 bytes".to_owned()));
            }
            Some(Value::String(query)) => return Ok(query),
            Some(_) => return Err(bad("query must be a string".to_owned())),
            None => {}
        }
        Err(bad("query must be a non-empty string".to_owned()))
    }

    /// The most items wanted, at most `most`. JSON writes one and the same integer as `5`, `5.0` and `5e0`.
    pub(super) fn limit(self, most: u64) -> Result<u64, ToolError> {
        let Some(value) = self.0.get("limit") else { return Ok(most) };
        let whole = value.as_u64().or_else(|| {
            let number = value.as_f64().filter(|number| number.fract() == 0.0 && *number >= 1.0)?;
            // Whatever is larger than the largest page is clamped anyway.
            Some(if number > u32::MAX.into() { u32::MAX.into() } else { number as u64 })
        });
        match whole {
            Some(limit) if limit >= 1 => Ok(limit.min(most)),
            _ => Err(bad("limit must be a positive integer".to_owned())),
        }
    }
}

fn bad(text: String) -> ToolError {
    ToolError::BadArgument(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn limit(value: Value) -> Result<u64, ToolError> {
        let map = json!({ "limit": value });
        Arguments(map.as_object().unwrap()).limit(200)
    }

    #[test]
    fn a_limit_is_a_positive_integer_and_is_clamped() {
        for (value, expected) in
            [(json!(1), 1), (json!(200), 200), (json!(201), 200), (json!(5.0), 5), (json!(1e300), 200)]
        {
            assert_eq!(limit(value), Ok(expected));
        }
        for value in [json!(0), json!(-1), json!(1.5), json!("5"), json!(null), json!(true), json!([1]), json!(0.0)] {
            assert_eq!(limit(value.clone()).unwrap_err().to_string(), "limit must be a positive integer", "{value}");
        }
    }

    #[test]
    fn a_query_is_one_line_of_bounded_bytes() {
        let query = |value: Value| {
            let map = json!({ "query": value });
            Arguments(map.as_object().unwrap()).query().map(str::to_owned).map_err(|error| error.to_string())
        };
        assert_eq!(query(json!("a b")), Ok("a b".to_owned()));
        assert!(query(json!("x".repeat(256))).is_ok());
        for text in ["x".repeat(257), "é".repeat(129), "a\nb".to_owned(), "a\r".to_owned()] {
            assert_eq!(query(json!(text)).unwrap_err(), "query must be one line of at most 256 UTF-8 bytes");
        }
        assert_eq!(query(json!("")).unwrap_err(), "query must be a non-empty string");
        assert_eq!(query(json!(1)).unwrap_err(), "query must be a string");
    }
}
