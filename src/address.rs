//! Ids of agents, groups, roles, systems and messages: what makes one valid.
//!
//! Stands at the start of a frame's way: decoding checks every id here, so later stages handle
//! only valid ones.

use crate::{
    limits::{MESSAGE_ID_BYTES_MAX, NAME_BYTES_MAX, TEXT_BYTES_MAX},
    refusal::{Code, Refusal},
};

/// The kinds of text an envelope holds, which differ in how long and how free they may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A message id: at most [`MESSAGE_ID_BYTES_MAX`] bytes, no control characters.
    MessageId,
    /// A name: at most [`NAME_BYTES_MAX`] bytes, no control characters. Spaces, dots, `*`, `>` and
    /// any other printable text are ordinary characters of it.
    Name,
    /// Free text: at most [`TEXT_BYTES_MAX`] bytes.
    Text,
}

impl Kind {
    const fn bytes_max(self) -> usize {
        match self {
            Kind::MessageId => MESSAGE_ID_BYTES_MAX,
            Kind::Name => NAME_BYTES_MAX,
            Kind::Text => TEXT_BYTES_MAX,
        }
    }
}

/// Checks one text of an envelope. An empty one is valid here: it means absent.
///
/// # Errors
///
/// [`Code::InvalidField`], naming `field`, when the text is too long or holds a control character
/// (U+0000 to U+001F, U+007F) where ids may not.
pub fn check(kind: Kind, field: &str, text: &str) -> Result<(), Refusal> {
    let problem = if text.len() > kind.bytes_max() {
        format!(
            "is {} bytes long; at most {} are allowed",
            text.len(),
            kind.bytes_max()
        )
    } else if kind != Kind::Text && text.bytes().any(|byte| byte.is_ascii_control()) {
        "holds a control character, which ids may not".to_owned()
    } else {
        return Ok(());
    };
    Err(Refusal::of_field(
        Code::InvalidField,
        field.to_owned(),
        format!("{field} {problem}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_but_printable_names_are_names() {
        for name in ["a b", "a.b", "*", ">", "a..b", "$SYS.x", "智能体", "👩‍🚀", ""] {
            assert_eq!(check(Kind::Name, "group_id", name), Ok(()), "{name}");
        }
    }

    #[test]
    fn control_characters_and_length_are_refused_with_the_field() {
        let long = "x".repeat(5_000);
        for name in ["a\0b", "a\r\nb", "\u{7f}", long.as_str()] {
            let refusal = check(Kind::Name, "group_id", name).unwrap_err();
            assert_eq!(refusal.code, Code::InvalidField);
            assert_eq!(refusal.field.as_deref(), Some("group_id"));
        }
        assert_eq!(check(Kind::Text, "agent_name", "two\nlines"), Ok(()));
    }
}
