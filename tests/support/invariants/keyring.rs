//! What holds for every JSON Web Key Set. Panics where it does not hold.

use serde_json::Value;
use synapse::keys::{KeyError, Keyring};

/// Reads a set: `ok`, `bytes` for what is not UTF-8, or what was wrong with it: `set` for the whole,
/// `duplicate`, or the member of a key.
///
/// # Panics
///
/// When a set that was read is not the same after writing and reading again, or a refusal tells a
/// secret.
pub fn check(bytes: &[u8]) -> &'static str {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return "bytes";
    };
    let ring = match Keyring::from_json(text) {
        Ok(ring) => ring,
        Err(error) => {
            tells_no_secret(text, &format!("{error} {error:?}"));
            return match error {
                KeyError::Member { member, .. } => member,
                KeyError::Duplicate(_) => "duplicate",
                KeyError::Set(_) => "set",
                KeyError::System(error) => panic!("{error} without a file"),
            };
        }
    };
    tells_no_secret(text, &format!("{ring:?}"));
    let written = ring.to_json().unwrap();
    let again = Keyring::from_json(&written).unwrap();
    assert_eq!(*again.to_json().unwrap(), *written);
    assert_eq!(again.all().count(), ring.all().count());
    for (key, same) in ring.all().zip(again.all()) {
        assert!(key.is_same_as(same) && key.kid == same.kid && key.agent_id == same.agent_id);
        assert_eq!(
            (key.not_before, key.not_after),
            (same.not_before, same.not_after)
        );
        assert!(ring.of(&key.agent_id).iter().any(|of| of.kid == key.kid));
    }
    for key in ring.all_sealing() {
        assert!(again.sealing(&key.kid).is_some());
    }
    "ok"
}

/// What is said of a set shows no secret of it that is long enough to be one, unless a name in the set
/// shows it too.
fn tells_no_secret(text: &str, said: &str) {
    let Ok(mut set) = serde_json::from_str::<Value>(text) else {
        return;
    };
    let mut secrets = Vec::new();
    let keys = set.get_mut("keys").and_then(Value::as_array_mut);
    for jwk in keys.into_iter().flatten() {
        let members = jwk.as_object_mut().into_iter();
        secrets.extend(members.flat_map(|jwk| [jwk.remove("k"), jwk.remove("d")]));
    }
    let open = set.to_string();
    for secret in secrets.iter().flatten().filter_map(Value::as_str) {
        let is_told = secret.len() >= 20 && said.contains(secret);
        assert!(!is_told || open.contains(secret), "{said}");
    }
}
