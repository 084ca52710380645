//! Keyrings of several files as one.
//!
//! Beside a frame's way: an agent has its keys for signatures and those for sealed payloads in files of
//! their own.

use std::sync::Arc;

use super::Keyring;
use crate::keys::{Key, KeyError, SealingKey};

type Time = Option<jiff::Timestamp>;

impl Keyring {
    /// Adds the keys of another one behind its own. A key that both have stays where it is, with its
    /// secret if either has that, and is valid only when both say so.
    ///
    /// # Errors
    ///
    /// [`KeyError::Duplicate`] when a `kid` names one key here and another there.
    pub fn merge(&mut self, other: &Keyring) -> Result<(), KeyError> {
        for key in other.all() {
            let mut own = self.by_agent.get_mut(&key.agent_id).into_iter().flatten();
            match own.find(|own| own.kid == key.kid) {
                Some(own) => *own = Arc::new(both(own, key)?),
                None => self.add((**key).clone())?,
            }
        }
        for key in other.all_sealing() {
            let mut own = self.sealing_by_agent.get_mut(&key.agent_id);
            let mut own = own.iter_mut().flat_map(|keys| keys.iter_mut());
            match own.find(|own| own.kid == key.kid) {
                Some(own) => {
                    *own = Arc::new(both_sealing(own, key)?);
                    self.sealing.insert(key.kid.clone(), Arc::clone(own));
                }
                None => self.add_sealing((**key).clone())?,
            }
        }
        Ok(())
    }
}

fn both(one: &Key, other: &Key) -> Result<Key, KeyError> {
    let is_same = match (one.public(), other.public()) {
        (Some(one), Some(other)) => one.is_same_as(&other),
        _ => one.is_same_as(other),
    };
    if !is_same {
        return Err(KeyError::Duplicate(other.kid.clone()));
    }
    let mut key = if one.can_sign() { one } else { other }.clone();
    (key.not_before, key.not_after) = overlap(
        (one.not_before, one.not_after),
        (other.not_before, other.not_after),
    );
    Ok(key)
}

fn both_sealing(one: &SealingKey, other: &SealingKey) -> Result<SealingKey, KeyError> {
    if !one.is_same_as(other) {
        return Err(KeyError::Duplicate(other.kid.clone()));
    }
    let mut key = one.clone();
    (key.not_before, key.not_after) = overlap(
        (one.not_before, one.not_after),
        (other.not_before, other.not_after),
    );
    Ok(key)
}

/// The time that is within both.
fn overlap(one: (Time, Time), other: (Time, Time)) -> (Time, Time) {
    let to = one.1.into_iter().chain(other.1).min();
    // No beginning comes before any.
    (one.0.max(other.0), to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Algorithm;
    use std::slice::from_ref;

    const AT: fn(i64) -> Time = |second| jiff::Timestamp::from_second(second).ok();

    fn ring(keys: &[Key], sealing: &[SealingKey]) -> Keyring {
        let mut ring = Keyring::default();
        for key in keys {
            ring.add(key.clone()).unwrap();
        }
        for key in sealing {
            ring.add_sealing(key.clone()).unwrap();
        }
        ring
    }

    #[test]
    fn a_key_of_both_keeps_its_place_and_its_secret_and_lives_while_both_say_so() {
        let [mut old, new] =
            ["old", "new"].map(|kid| Key::generate(kid, "alice", Algorithm::Ed25519).unwrap());
        let mut public = old.public().unwrap();
        (old.not_before, public.not_before, public.not_after) = (AT(1), AT(2), AT(9));
        for (first, second) in [(&old, &public), (&public, &old)] {
            let mut merged = ring(&[first.clone(), new.clone()], &[]);
            merged.merge(&ring(from_ref(second), &[])).unwrap();
            let kids: Vec<_> = merged.of("alice").iter().map(|key| &*key.kid).collect();
            assert_eq!(kids, ["old", "new"]);
            let key = &merged.of("alice")[0];
            assert!(key.can_sign());
            assert_eq!((key.not_before, key.not_after), (AT(2), AT(9)));
        }
        let mut seal = SealingKey::generate("seal", "bob").unwrap();
        let mut merged = ring(&[], &[seal.clone()]);
        seal.not_after = AT(5);
        merged.merge(&ring(&[new], &[seal])).unwrap();
        assert_eq!(merged.sealing("seal").unwrap().not_after, AT(5));
        assert_eq!(merged.sealing_of("bob")[0].not_after, AT(5));
        assert_eq!((merged.all().count(), merged.all_sealing().count()), (1, 1));
    }

    #[test]
    fn a_kid_names_one_key() {
        let key = |agent_id| Key::generate("k", agent_id, Algorithm::HmacSha256).unwrap();
        let seal = |agent_id| SealingKey::generate("k", agent_id).unwrap();
        let one = key("alice");
        let mut renamed = one.clone();
        renamed.agent_id = "bob".to_owned();
        for (own, other) in [
            (ring(from_ref(&one), &[]), ring(&[key("alice")], &[])),
            (ring(from_ref(&one), &[]), ring(&[renamed], &[])),
            (ring(&[one], &[]), ring(&[], &[seal("alice")])),
            (ring(&[], &[seal("a")]), ring(&[], &[seal("a")])),
            (ring(&[], &[seal("a")]), ring(&[], &[seal("b")])),
        ] {
            let clash = own.clone().merge(&other).unwrap_err();
            assert!(matches!(clash, KeyError::Duplicate(kid) if kid == "k"));
        }
    }
}
