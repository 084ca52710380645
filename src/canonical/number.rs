//! Numbers that survive the canonical form (RFC 8785 section 3.2.2.3), and those that do not.
//!
//! Part of reading what a signature covers: two different numbers must never have one signature.

use std::borrow::Cow;

/// The largest integer all readers agree on, 2^53 − 1 (RFC 7493 section 2.2).
const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;

/// Whether a literal is spelled as the canonical form would, and safe.
pub(super) fn is_canonical(literal: &str) -> bool {
    match integer_digits(literal) {
        Some(digits) => literal != "-0" && is_safe_integer(digits),
        // Spelled so, it means what a double keeps.
        None => canonical(literal).is_some_and(|canonical| canonical == literal),
    }
}

/// The canonical spelling of a literal; `None` if it would not mean the same: an integer beyond
/// ±(2^53 − 1), or another number whose value a double does not keep.
pub(super) fn canonical_if_safe(literal: &str) -> Option<Cow<'_, str>> {
    match integer_digits(literal) {
        Some("0") => Some(Cow::Borrowed("0")),
        Some(digits) => is_safe_integer(digits).then_some(Cow::Borrowed(literal)),
        None => canonical(literal)
            .filter(|canonical| {
                canonical == literal || Decimal::of(canonical) == Decimal::of(literal)
            })
            .map(Cow::Owned),
    }
}

/// The digits of an integer without its sign. JSON has no leading zeros.
fn integer_digits(literal: &str) -> Option<&str> {
    let digits = literal.strip_prefix('-').unwrap_or(literal);
    let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_integer.then_some(digits)
}

fn is_safe_integer(digits: &str) -> bool {
    // Below 10^15 all are.
    digits.len() <= 15
        || digits
            .parse()
            .is_ok_and(|number: u64| number <= SAFE_INTEGER_MAX)
}

fn canonical(literal: &str) -> Option<String> {
    let number: f64 = literal.parse().ok()?;
    serde_json_canonicalizer::to_string(&number).ok()
}

/// A number without the freedom of its spelling. Zero has no sign.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    digits: String,
    /// Power of ten of the last digit.
    exponent: i64,
}

impl Decimal {
    fn of(literal: &str) -> Option<Decimal> {
        let (mantissa, exponent) = literal.split_once(['e', 'E']).unwrap_or((literal, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let exponent: i64 = exponent.parse().ok()?;
        let written = [whole.trim_start_matches('-'), fraction].concat();
        let significant = written.trim_end_matches('0');
        let dropped = written.len() - significant.len();
        let digits = significant.trim_start_matches('0');
        if digits.is_empty() {
            return Some(Decimal {
                is_negative: false,
                digits: String::new(),
                exponent: 0,
            });
        }
        let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        Some(Decimal {
            is_negative: whole.starts_with('-'),
            digits: digits.to_owned(),
            exponent: exponent.checked_add(i64::try_from(dropped).ok()?)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_safe(literal: &str) -> bool {
        canonical_if_safe(literal).is_some()
    }

    #[test]
    fn integers_are_safe_up_to_two_to_the_53_less_one() {
        for literal in ["0", "-0", "1", "-9007199254740991", "9007199254740991"] {
            assert!(is_safe(literal), "{literal}");
        }
        let beyond = [
            "9007199254740992",
            "-9007199254740993",
            "100000000000000000000",
        ];
        for literal in beyond {
            assert!(!is_safe(literal) && !is_canonical(literal), "{literal}");
        }
    }

    #[test]
    fn other_numbers_are_safe_when_a_double_keeps_them() {
        for literal in [
            "10.0", "-0.0", "1e21", "1E-7", "0.1", "1.5e300", "5e-324", "4.50",
        ] {
            assert!(is_safe(literal), "{literal}");
        }
        for literal in [
            "0.1000000000000000055",
            "9007199254740993.0",
            "3.14159265358979323846",
            "1e-400",
            "1e400",
            "1e99999999999999999999",
        ] {
            assert!(!is_safe(literal), "{literal}");
        }
    }

    #[test]
    fn canonical_spelling() {
        for literal in [
            "0",
            "-1",
            "1.5",
            "1e+21",
            "1e-7",
            "0.000001",
            "999999999999999",
        ] {
            assert!(is_canonical(literal), "{literal}");
        }
        for literal in ["-0", "1.0", "1e21", "1E+21", "10e1", "0.10", "-0.0"] {
            assert!(!is_canonical(literal), "{literal}");
        }
    }
}
