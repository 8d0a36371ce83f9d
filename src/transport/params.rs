//! Params as a value, within bounds of depth and number, and with no member given twice.
//!
//! A line of nested arrays costs hundreds of times its length in memory once it is decoded, so both are bounded while it
//! is. And of a member that is given twice, whoever stands between a client and this server may have read the other one.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Deepest nesting. serde_json itself stops at 127.
const MAX_DEPTH: u32 = 100;

/// Most values: an object of one number takes some 400 bytes, and 64 such lines may wait.
const MAX_VALUES: u32 = 10_000;

const MALFORMED: &str = "params are malformed";
const DEEP: &str = "params are nested deeper than 100 levels";
const MANY: &str = "params hold more than 10000 values";
const TWICE: &str = "a member of params is given twice";
const META: &str = "params._meta must be an object";

/// Params from their text, if they are an object within bounds, and so is their `_meta`; else what is wrong with them.
pub(super) fn decode(json: &str) -> Result<Map<String, Value>, &'static str> {
    let mut seen = Seen { values: 0, wrong: MALFORMED };
    let within = Within { seen: &mut seen, depth: 0 };
    match within.deserialize(&mut serde_json::Deserializer::from_str(json)) {
        Ok(Value::Object(params)) if params.get("_meta").is_some_and(|meta| !meta.is_object()) => Err(META),
        Ok(Value::Object(params)) => Ok(params),
        Ok(_) => Err(MALFORMED),
        Err(_) => Err(seen.wrong),
    }
}

/// What was met so far.
struct Seen {
    values: u32,
    /// What is wrong if decoding fails now.
    wrong: &'static str,
}

impl Seen {
    fn fail<E: Error>(&mut self, wrong: &'static str) -> E {
        self.wrong = wrong;
        E::custom(wrong)
    }
}

/// One value, and how deep it stands.
struct Within<'s> {
    seen: &'s mut Seen,
    depth: u32,
}

impl Within<'_> {
    fn enter<E: Error>(&mut self) -> Result<(), E> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(self.seen.fail(DEEP)) } else { Ok(()) }
    }

    fn inner(&mut self) -> Within<'_> {
        Within { seen: self.seen, depth: self.depth }
    }
}

impl<'de> DeserializeSeed<'de> for Within<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.seen.values += 1;
        if self.seen.values > MAX_VALUES {
            return Err(self.seen.fail(MANY));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Within<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<Value, A::Error> {
        self.enter()?;
        let mut array = Vec::new();
        while let Some(element) = elements.next_element_seed(self.inner())? {
            array.push(element);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Value, A::Error> {
        self.enter()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(self.inner())?;
            if object.insert(name, value).is_some() {
                return Err(self.seen.fail(TWICE));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_decoded_is_what_serde_json_decodes() {
        for json in [
            r#"{}"#,
            r#"{"a":null,"b":[true,false,[]],"c":{"d":{}}}"#,
            r#"{"n":[0,-1,18446744073709551615,-9223372036854775808,1.5,1e3,-0.0]}"#,
            r#"{"s":"\u0000\ud83d\ude00 \" é","":" "}"#,
        ] {
            assert_eq!(Value::Object(decode(json).unwrap()), serde_json::from_str::<Value>(json).unwrap(), "{json}");
        }
    }

    #[test]
    fn what_is_no_object_or_cannot_be_decoded_is_malformed() {
        for json in ["null", "[]", "1", "\"a\"", r#"{"a":"\ud800"}"#, r#"{"\udfff":1}"#, r#"{"a":1e999}"#] {
            assert_eq!(decode(json).unwrap_err(), MALFORMED, "{json}");
        }
        assert_eq!(decode(r#"{"_meta":null}"#).unwrap_err(), META);
        assert!(decode(r#"{"_meta":{"_meta":null}}"#).is_ok());
    }

    #[test]
    fn a_member_given_twice_is_found_at_any_depth_and_in_any_spelling() {
        for json in [r#"{"a":1,"a":1}"#, r#"{"a":[{"b":1,"c":2,"b":3}]}"#, r#"{"a":1,"\u0061":2}"#] {
            assert_eq!(decode(json).unwrap_err(), TWICE, "{json}");
        }
        assert!(decode(r#"{"a":{"b":1},"c":{"b":1},"A":1}"#).is_ok());
    }

    #[test]
    fn depth_and_number_are_bounded() {
        let deep = |depth: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        assert!(decode(&deep(99)).is_ok());
        assert_eq!(decode(&deep(100)).unwrap_err(), DEEP);
        assert_eq!(decode(&deep(200_000)).unwrap_err(), DEEP);
        let wide = |values: usize| format!(r#"{{"a":[{}]}}"#, vec!["1"; values].join(","));
        // Beside them the object and the array.
        assert!(decode(&wide(9_998)).is_ok());
        assert_eq!(decode(&wide(9_999)).unwrap_err(), MANY);
        assert!(decode(&format!(r#"{{"a":"{}"}}"#, ",[{".repeat(100_000))).is_ok());
    }
}
