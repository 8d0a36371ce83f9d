//! What the operator decided: the root's path, the patterns and the limits, as values that are valid.

use std::ffi::OsString;

use crate::error::ConfigError;
use crate::selector::Selector;

/// The bounds a server keeps. Sizes are in bytes.
///
/// ```
/// use ptc_fs_mcp::Limits;
/// let limits = Limits { max_write_bytes: 1 << 20, ..Limits::DEFAULT };
/// assert_eq!(limits.max_result_bytes, 48_000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Larger files are not served by any tool; `None` is no limit.
    pub max_file_bytes: Option<u64>,
    /// Largest content of one write. Default 65,536.
    pub max_write_bytes: u64,
    /// Ceiling of one serialised tool result, 36,000 to 4,194,304. Default 48,000: hosts spill results of more than
    /// about 50,000 characters to a file. 36,000 is the least in which the widest single item fits after escaping.
    pub max_result_bytes: u64,
    /// Bytes that one page of `search_text` may scan. Default 128 MiB.
    pub max_scan_bytes: u64,
    /// Directories that lie deeper are not served; the root's children lie at depth 1. Default 64.
    pub max_depth: u64,
    /// Whether mount points below the root are crossed. Default no.
    pub allow_mounts: bool,
    /// Whether files with more than one link are left unserved. Default no.
    pub deny_hardlinks: bool,
    /// Most served files that one walk may meet. Default 4,000,000.
    pub walk_files: u64,
    /// Most directory entries that one walk may read. Default 16,000,000.
    pub walk_entries: u64,
    /// Walks and scans (`list_directory`, `search_files`, `search_text`) at work at one time; more wait. Default 4.
    pub long_calls: usize,
    /// Other calls at work at one time, whatever the walks and scans do; more wait. Default 8.
    pub short_calls: usize,
}

impl Limits {
    /// The documented defaults.
    pub const DEFAULT: Self = Self {
        max_file_bytes: None,
        max_write_bytes: 65_536,
        max_result_bytes: 48_000,
        max_scan_bytes: 134_217_728,
        max_depth: 64,
        allow_mounts: false,
        deny_hardlinks: false,
        walk_files: 4_000_000,
        walk_entries: 16_000_000,
        long_calls: 4,
        short_calls: 8,
    };

    /// The largest content that a write may have: what is larger than `max_file_bytes` could not be read back.
    pub(crate) fn write_bytes(&self) -> u64 {
        self.max_file_bytes.map_or(self.max_write_bytes, |most| most.min(self.max_write_bytes))
    }

    fn check(&self) -> Result<(), ConfigError> {
        let positive = |option, value| match value {
            0 => Err(ConfigError::Limit { option, rule: "a positive integer" }),
            _ => Ok(()),
        };
        positive("--max-file-bytes", self.max_file_bytes.unwrap_or(1))?;
        positive("--max-write-bytes", self.max_write_bytes)?;
        positive("--max-scan-bytes", self.max_scan_bytes)?;
        positive("--max-depth", self.max_depth)?;
        positive("walk_files", self.walk_files)?;
        positive("walk_entries", self.walk_entries)?;
        positive("long_calls", self.long_calls as u64)?;
        positive("short_calls", self.short_calls as u64)?;
        if !(36_000..=4_194_304).contains(&self.max_result_bytes) {
            let rule = "an integer from 36000 to 4194304";
            return Err(ConfigError::Limit { option: "--max-result-bytes", rule });
        }
        Ok(())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A valid configuration; see [`Config::builder`].
#[derive(Debug, Clone)]
pub struct Config {
    pub(crate) root: Option<OsString>,
    pub(crate) selector: Selector,
    pub(crate) limits: Limits,
    #[cfg(feature = "test-hooks")]
    pub(crate) component_walk: bool,
}

impl Config {
    /// Begins a configuration.
    ///
    /// ```
    /// use ptc_fs_mcp::{Config, Limits};
    /// let config = Config::builder()
    ///     .root("some/directory")
    ///     .include("**/*.md")
    ///     .exclude("**/drafts")
    ///     .limits(Limits { max_file_bytes: Some(1 << 20), ..Limits::DEFAULT })
    ///     .build()?;
    /// # drop(config);
    /// # Ok::<(), ptc_fs_mcp::ConfigError>(())
    /// ```
    #[must_use]
    pub fn builder() -> ConfigBuilder {
        ConfigBuilder::default()
    }
}

/// Collects a [`Config`].
#[derive(Debug, Default)]
pub struct ConfigBuilder {
    root: Option<OsString>,
    includes: Vec<String>,
    excludes: Vec<String>,
    limits: Limits,
    #[cfg(feature = "test-hooks")]
    component_walk: bool,
}

impl ConfigBuilder {
    /// The host path of the directory to confine to, for [`crate::Root::open_ambient`].
    #[must_use]
    pub fn root(mut self, path: impl Into<OsString>) -> Self {
        self.root = Some(path.into());
        self
    }

    /// Serves the paths that match.
    #[must_use]
    pub fn include(mut self, pattern: impl Into<String>) -> Self {
        self.includes.push(pattern.into());
        self
    }

    /// Never serves the paths that match, nor anything beneath them.
    #[must_use]
    pub fn exclude(mut self, pattern: impl Into<String>) -> Self {
        self.excludes.push(pattern.into());
        self
    }

    /// Replaces the default limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Resolves paths as on a kernel without `openat2`. Tests only.
    #[cfg(feature = "test-hooks")]
    #[must_use]
    pub fn test_component_walk(mut self, forced: bool) -> Self {
        self.component_walk = forced;
        self
    }

    /// Checks everything but the root's path, which [`crate::Root::open_ambient`] checks.
    ///
    /// # Errors
    /// The [`ConfigError`] of the first pattern or limit that is not valid.
    pub fn build(self) -> Result<Config, ConfigError> {
        self.limits.check()?;
        Ok(Config {
            root: self.root,
            selector: Selector::new(&self.includes, &self.excludes)?,
            limits: self.limits,
            #[cfg(feature = "test-hooks")]
            component_walk: self.component_walk,
        })
    }
}
