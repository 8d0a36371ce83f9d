//! Schemas inside the profile that the strictest known host accepts: JSON Schema 2020-12 with object roots, single
//! types, and no `pattern`, `oneOf` or `$ref`.

use serde_json::{Map, Value, json};

/// A closed object. `required` names some of the properties.
pub(super) fn closed(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// A reader's result. It is open at its root, because the profile cannot say "string or null" of `next_cursor`.
pub(super) fn page(item: Value) -> Value {
    json!({
        "type": "object",
        "description": "One page. next_cursor is a string while more pages follow and null on the last one.",
        "properties": {
            "items": { "type": "array", "items": item },
            "content_hash": content_hash("the bytes this page returned"),
        },
        "required": ["items", "content_hash"],
    })
}

pub(super) fn content_hash(of: &str) -> Value {
    json!({ "type": "string", "description": format!("sha256: and the lower-case hex SHA-256 of {of}.") })
}

/// The properties of a reader: its own, then those that page.
pub(super) fn reader(own: Value, limit: &str) -> Value {
    let mut properties = match own {
        Value::Object(properties) => properties,
        _ => Map::new(),
    };
    properties.insert(
        "cursor".to_owned(),
        json!({
            "type": "string",
            "description": "next_cursor of the page before; give all other arguments as they were.",
            "maxLength": 4096,
        }),
    );
    properties.insert("limit".to_owned(), json!({ "type": "integer", "description": limit, "minimum": 1 }));
    Value::Object(properties)
}

pub(super) fn query(description: &str) -> Value {
    let most = super::arguments::MAX_QUERY;
    json!({ "type": "string", "description": description, "minLength": 1, "maxLength": most })
}

pub(super) fn string(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

pub(super) fn integer(description: &str, minimum: u64) -> Value {
    json!({ "type": "integer", "description": description, "minimum": minimum })
}
