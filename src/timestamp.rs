//! RFC 3339 times as the protocol accepts them.
//!
//! Used where an envelope is read and built. One rule for every language: `YYYY-MM-DDTHH:MM:SS`,
//! an optional fraction of 1 to 9 digits after a full stop, then `Z` or `+HH:MM` / `-HH:MM`.
//! `t` and `z` may be small (RFC 3339 section 5.6). A leap second (`:60`), a comma, an offset of 24
//! hours or more and a missing offset are refused. `9999-12-31T23:59:59Z`, which many write for
//! "never", is a time like any other.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A time as its sender wrote it, and the instant it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timestamp<'a> {
    text: Cow<'a, str>,
    at: jiff::Timestamp,
}

impl<'a> Timestamp<'a> {
    /// Reads one; `None` when it is outside the rule above or no date of the calendar.
    pub fn parse(text: Cow<'a, str>) -> Option<Self> {
        if !has_the_shape(text.as_bytes()) {
            return None;
        }
        let at = match text.parse() {
            Ok(at) => at,
            Err(_) => at_the_end(&text)?,
        };
        Some(Timestamp { text, at })
    }

    /// The time as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The instant it means.
    pub fn at(&self) -> jiff::Timestamp {
        self.at
    }

    /// The same, owning its text.
    pub fn into_owned(self) -> Timestamp<'static> {
        Timestamp {
            text: Cow::Owned(self.text.into_owned()),
            at: self.at,
        }
    }
}

impl From<jiff::Timestamp> for Timestamp<'static> {
    /// Writes an instant in UTC with `Z`.
    fn from(at: jiff::Timestamp) -> Self {
        Timestamp {
            text: Cow::Owned(at.to_string()),
            at,
        }
    }
}

impl Serialize for Timestamp<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Timestamp<'static> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let time = Timestamp::parse(Cow::Owned(text));
        time.ok_or_else(|| de::Error::custom("not an RFC 3339 time with offset"))
    }
}

/// The last instant `jiff` counts, some hours before the calendar's end, for a time of the calendar
/// that lies behind it.
fn at_the_end(text: &str) -> Option<jiff::Timestamp> {
    let date_time: jiff::civil::DateTime = text.get(..19)?.parse().ok()?;
    (date_time.year() == 9999).then_some(jiff::Timestamp::MAX)
}

/// The shape alone; the calendar is `jiff`'s.
fn has_the_shape(text: &[u8]) -> bool {
    let Some((date_time, rest)) = text.split_at_checked(19) else {
        return false;
    };
    let digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    let [
        y @ ..,
        b'-',
        m1,
        m2,
        b'-',
        d1,
        d2,
        b'T' | b't',
        h1,
        h2,
        b':',
        n1,
        n2,
        b':',
        s1,
        s2,
    ] = date_time
    else {
        return false;
    };
    if !digits(y) || !digits(&[*m1, *m2, *d1, *d2, *h1, *h2, *n1, *n2, *s1, *s2]) || *s1 > b'5' {
        return false;
    }
    let offset = match rest {
        [b'.', fraction @ ..] => {
            let length = fraction
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            if !(1..=9).contains(&length) {
                return false;
            }
            &fraction[length..]
        }
        whole_second => whole_second,
    };
    match offset {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => {
            digits(&[*h1, *h2, *m1, *m2]) && [*h1, *h2] <= [b'2', b'3'] && *m1 <= b'5'
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(text: &str) -> Option<i64> {
        Timestamp::parse(Cow::Borrowed(text)).map(|time| time.at().as_millisecond())
    }

    #[test]
    fn accepted_with_their_offsets_honoured() {
        let noon = millis("2026-03-01T12:00:00Z");
        assert!(noon.is_some());
        for same in [
            "2026-03-01t12:00:00z",
            "2026-03-01T12:00:00.0Z",
            "2026-03-01T12:00:00.000000000Z",
            "2026-03-01T20:00:00+08:00",
            "2026-03-01T11:30:00-00:30",
            "2026-03-01T12:00:00-00:00",
            "2026-03-02T11:59:00+23:59",
        ] {
            assert_eq!(millis(same), noon, "{same}");
        }
    }

    #[test]
    fn the_calendar_is_taken_to_both_its_ends() {
        let last = jiff::Timestamp::MAX.as_millisecond();
        for text in [
            "9999-12-31T23:59:59Z",
            "9999-12-31t23:59:59.999999999-23:59",
            "9999-12-31T00:00:00Z",
        ] {
            assert_eq!(millis(text), Some(last), "{text}");
        }
        assert!(millis("9999-12-30T00:00:00Z").is_some_and(|before| before < last));
        assert!(millis("0000-01-01T00:00:00+23:59").is_some_and(|first| first < 0));
    }

    #[test]
    fn refused() {
        for text in [
            "",
            "2026-03-01",
            "2026-03-01T12:00:00",
            "2026-03-01 12:00:00Z",
            "2026-03-01T12:00:00.Z",
            "2026-03-01T12:00:00,5Z",
            "2026-03-01T12:00:00.0123456789Z",
            "2026-03-01T12:00:60Z",
            "2026-03-01T24:00:00Z",
            "2026-02-30T12:00:00Z",
            "2026-13-01T12:00:00Z",
            "2026-03-01T12:00:00+99:99",
            "2026-03-01T12:00:00+24:00",
            "2026-03-01T12:00:00+0800",
            "2026-03-01T12:00:00+08",
            "2026-03-01T12:00:00Z[UTC]",
            "+002026-03-01T12:00:00Z",
            "12026-03-01T12:00:00Z",
            "2026-03-01T12:00:00Ż",
            "9999-12-32T23:59:59Z",
            "9999-02-29T23:59:59Z",
        ] {
            assert_eq!(millis(text), None, "{text}");
        }
    }
}
