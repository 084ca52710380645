//! Names with wildcards, as the file of permissions has them.
//!
//! Part of a rule: `*` stands for any run of characters, also none; `\*` for the character itself.

use serde::Deserialize;
use wildmatch::WildMatchPattern;

/// Stands for any run of characters once a pattern is read. Names hold no control characters.
const ANY: char = '\u{1}';
/// Would stand for one character; patterns cannot say it.
const ONE: char = '\u{2}';

/// Names; none unless it says otherwise.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Names(Vec<Name>);

impl Names {
    /// Every name.
    pub(super) fn all() -> Self {
        Names(vec![Name::Any])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it holds this one.
    pub(super) fn hold(&self, name: &str) -> bool {
        self.0.iter().any(|known| known.is(name))
    }
}

/// One pattern, by how it is matched.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
enum Name {
    Any,
    Exact(String),
    Wild(WildMatchPattern<ANY, ONE>),
}

impl Name {
    fn is(&self, name: &str) -> bool {
        match self {
            Name::Any => true,
            Name::Exact(exact) => *exact == *name,
            Name::Wild(pattern) => pattern.matches(name),
        }
    }
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(text: String) -> Result<Name, String> {
        if text.is_empty() || text.contains(|each: char| each.is_control()) {
            return Err(format!("{text:?} is no name or pattern"));
        }
        let mut read = String::with_capacity(text.len());
        let mut characters = text.chars();
        while let Some(each) = characters.next() {
            match each {
                '*' => read.push(ANY),
                '\\' => match characters.next() {
                    Some(escaped @ ('*' | '\\')) => read.push(escaped),
                    _ => return Err(format!("{text:?}: after \\ only * or \\ can stand")),
                },
                other => read.push(other),
            }
        }
        Ok(if read.chars().all(|each| each == ANY) {
            Name::Any
        } else if read.contains(ANY) {
            Name::Wild(WildMatchPattern::new(&read))
        } else {
            Name::Exact(read)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(pattern: &str, name: &str) -> bool {
        Name::try_from(pattern.to_owned()).unwrap().is(name)
    }

    #[test]
    fn a_star_is_any_run_of_characters() {
        for (pattern, name) in [
            ("*", "a"),
            ("**", "智能体"),
            ("worker-*", "worker-1"),
            ("worker-*", "worker-"),
            ("*-智*", "a-智能体"),
            ("a*b*c", "aXbbYc"),
            ("a b", "a b"),
            ("a?c", "a?c"),
            (r"\*", "*"),
            (r"a\\*", r"a\b"),
            (r"\**", "*x"),
        ] {
            assert!(is(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("worker-*", "worker"),
            ("worker-*", "Worker-1"),
            ("worker", "worker-1"),
            ("a?c", "abc"),
            ("a.c", "abc"),
            ("[ab]", "a"),
            (r"\*", "a"),
            ("a*b*c", "acb"),
        ] {
            assert!(!is(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn what_could_name_nobody_is_refused() {
        for text in ["", "a\u{1}", "a\n", r"a\", r"a\b"] {
            assert!(Name::try_from(text.to_owned()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_long_name_of_a_hostile_pattern_takes_no_long() {
        let pattern = "a*".repeat(100) + "b";
        assert!(!is(&pattern, &"a".repeat(256)));
    }
}
