//! A JSON Web Key Set (RFC 7517 section 5) as it stands in a file: its order and what we do not know kept.
//!
//! Beside a frame's way: between the text and [`Keyring`], which is what Harbor and agents ask. Whoever
//! changes a file changes this.

use std::iter;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{Jwk, KeyError, Keyring, Purpose};

/// Keys in the order of their file, and the members of the set that are not ours.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct KeySet {
    keys: Vec<Jwk>,
    #[serde(flatten)]
    other: serde_json::Map<String, serde_json::Value>,
}

impl KeySet {
    /// Reads the text of a set. Whether its keys are any good is for [`KeySet::ring`] to say.
    ///
    /// # Errors
    ///
    /// [`KeyError::Set`].
    pub fn from_json(text: &str) -> Result<KeySet, KeyError> {
        serde_json::from_str(text).map_err(|error| {
            // Its own message may quote a value.
            let at = format!("see line {}, column {}", error.line(), error.column());
            KeyError::Set(at)
        })
    }

    /// The text, secrets included.
    ///
    /// # Errors
    ///
    /// [`KeyError::Set`] never in practice: keys have a JSON form.
    pub fn to_json(&self) -> Result<Zeroizing<String>, KeyError> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| Zeroizing::new(text + "\n"))
            .map_err(|error| KeyError::Set(error.to_string()))
    }

    /// The keys, each checked.
    ///
    /// # Errors
    ///
    /// With the `kid`, what is wrong with a key. One bad key refuses the set: an agent must not
    /// silently lose one.
    pub fn ring(&self) -> Result<Keyring, KeyError> {
        let mut ring = Keyring::default();
        for jwk in &self.keys {
            let named = |error| match error {
                KeyError::Member { member, reason } => KeyError::Member {
                    member,
                    reason: format!("{reason} (key {:?})", jwk.kid),
                },
                other => other,
            };
            if jwk.is_sealing() {
                ring.add_sealing(jwk.to_sealing_key().map_err(named)?)?;
            } else {
                ring.add(jwk.to_key().map_err(named)?)?;
            }
        }
        Ok(ring)
    }

    /// The keys as they were written.
    pub fn keys(&self) -> &[Jwk] {
        &self.keys
    }

    /// The same, to be changed.
    pub fn keys_mut(&mut self) -> &mut [Jwk] {
        &mut self.keys
    }

    /// The key with this `kid`.
    pub fn find(&self, kid: &str) -> Option<&Jwk> {
        self.keys.iter().find(|jwk| jwk.kid == kid)
    }

    /// A name for a new key that no other has: [`Purpose::default_kid`], with a number from the second
    /// of a day on.
    pub fn free_kid(&self, purpose: Purpose, agent_id: &str, at: jiff::Timestamp) -> String {
        let kid = purpose.default_kid(agent_id, at);
        let mut kids = iter::once(kid.clone()).chain((2..).map(|number| format!("{kid}-{number}")));
        kids.find(|kid| self.find(kid).is_none()).unwrap_or(kid)
    }

    /// Adds a key at the end, which is where the newest of an agent stands.
    ///
    /// # Errors
    ///
    /// [`KeyError::Duplicate`] when its `kid` is taken.
    pub fn add(&mut self, jwk: Jwk) -> Result<(), KeyError> {
        if self.find(&jwk.kid).is_some() {
            return Err(KeyError::Duplicate(jwk.kid));
        }
        self.keys.push(jwk);
        Ok(())
    }

    /// Takes a key out.
    pub fn remove(&mut self, kid: &str) -> Option<Jwk> {
        let at = self.keys.iter().position(|jwk| jwk.kid == kid)?;
        Some(self.keys.remove(at))
    }
}

impl FromIterator<Jwk> for KeySet {
    fn from_iter<I: IntoIterator<Item = Jwk>>(keys: I) -> KeySet {
        KeySet {
            keys: keys.into_iter().collect(),
            ..KeySet::default()
        }
    }
}
