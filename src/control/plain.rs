//! What a reader of JSON or TOML says about a value, in words for people who do not write Rust.
//!
//! Beside a frame's way: refusals and configuration errors are put like this.

/// Rewrites what serde says about a wrong value: `u64` becomes "a whole number" and so on. What the
/// value itself holds is left as it is.
pub fn in_plain_words(text: &str) -> String {
    // What was expected stands last; whatever the value held stands before it.
    let (found, expected) = match text.rsplit_once(", expected ") {
        Some((found, expected)) => (found, Some(expected)),
        None => (text, None),
    };
    let mut said = plain_found(found);
    if let Some(expected) = expected {
        said.push_str(", expected ");
        said.push_str(plain_expected(expected));
    }
    said
}

fn plain_found(found: &str) -> String {
    const WORDS: [(&str, &str); 6] = [
        ("invalid type: floating point ", "invalid type: number "),
        ("invalid type: integer ", "invalid type: number "),
        ("invalid value: integer ", "invalid value: number "),
        ("invalid type: boolean ", "invalid type: "),
        ("invalid type: sequence", "invalid type: list"),
        ("invalid type: map", "invalid type: object"),
    ];
    let fitting = WORDS
        .iter()
        .find_map(|(theirs, ours)| Some((ours, found.strip_prefix(theirs)?)));
    match fitting {
        Some((ours, rest)) => format!("{ours}{rest}"),
        None => found.to_owned(),
    }
}

fn plain_expected(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        "string or map" => "a string",
        _ if expected.starts_with("struct ") => "an object",
        _ => expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_as_people_name_them() {
        for (theirs, ours) in [
            (
                "invalid type: string \"many\", expected u64",
                "invalid type: string \"many\", expected a whole number",
            ),
            (
                "invalid type: floating point `1.5`, expected u32",
                "invalid type: number `1.5`, expected a whole number",
            ),
            (
                "invalid value: integer `-1`, expected u8",
                "invalid value: number `-1`, expected a whole number",
            ),
            (
                "invalid type: map, expected a sequence",
                "invalid type: object, expected a list",
            ),
            (
                "invalid type: boolean `true`, expected struct Join",
                "invalid type: `true`, expected an object",
            ),
            (
                "invalid type: integer `1`, expected a boolean",
                "invalid type: number `1`, expected true or false",
            ),
        ] {
            assert_eq!(in_plain_words(theirs), ours);
        }
    }

    #[test]
    fn what_the_value_holds_is_left_alone() {
        for text in [
            "unknown variant `x, expected u64`, expected `auto` or `manual`",
            "invalid type: string \"a, expected u64\", expected a string",
            "missing field `u64`",
        ] {
            assert_eq!(in_plain_words(text), text);
        }
    }
}
