//! Text as bytes: where one chunk of a page ends, and which lines hold a literal. Pure functions; nothing here knows
//! where the bytes come from.

mod scan;

pub(crate) use scan::{Ended, Mark, Scan};

/// Longest chunk of a page of text, in bytes.
pub(crate) const CHUNK: usize = 2048;

/// The first chunk of `bytes`: at most 2,048 bytes, ending between characters. The error is what stands before the first
/// of them that is not UTF-8. `complete` says that nothing follows these bytes in the file.
pub(crate) fn chunk(bytes: &[u8], complete: bool) -> Result<&str, &str> {
    let candidate = bytes.get(..CHUNK).unwrap_or(bytes);
    let error = match std::str::from_utf8(candidate) {
        Ok(text) => return Ok(text),
        Err(error) => error,
    };
    let valid =
        candidate.get(..error.valid_up_to()).and_then(|valid| std::str::from_utf8(valid).ok()).unwrap_or_default();
    // A character that is cut by the end of the candidate belongs to the next chunk.
    let cut = error.error_len().is_none() && (candidate.len() < bytes.len() || !complete);
    if cut && !valid.is_empty() { Ok(valid) } else { Err(valid) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn chunks_join_to_the_text(lead in 0usize..9, characters in proptest::sample::subsequence(vec!['x', 'é', '€', '\u{1f600}'], 1..4)) {
            let text = "x".repeat(lead) + &characters.iter().cycle().take(4000).collect::<String>();
            let (mut joined, mut rest) = (String::new(), text.as_bytes());
            while !rest.is_empty() {
                let part = chunk(rest, true).unwrap();
                prop_assert!(!part.is_empty() && part.len() <= CHUNK && (part.len() > CHUNK - 4 || part.len() == rest.len()));
                joined.push_str(part);
                rest = &rest[part.len()..];
            }
            prop_assert_eq!(joined, text);
        }
    }

    #[test]
    fn a_chunk_ends_between_characters_at_every_offset() {
        for lead in CHUNK - 4..=CHUNK + 1 {
            let text = "x".repeat(lead) + "é\u{1f600}end";
            let first = chunk(text.as_bytes(), true).unwrap();
            assert!(text.starts_with(first) && first.len() >= CHUNK - 3 && first.len() <= CHUNK);
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_make_no_chunk() {
        assert_eq!(chunk(b"ok\xff\xfe", true), Err("ok"));
        assert_eq!(chunk(b"\xc3", true), Err(""), "a character cut by the end of the file");
        assert_eq!(chunk(b"ok\xc3", true), Err("ok"));
        assert_eq!(chunk(b"ok\xc3", false), Ok("ok"));
    }
}
