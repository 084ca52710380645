//! All keys of a file: those that sign are found by agent, those that seal by `kid`.
//!
//! Asked where a message is verified, and where a payload is sealed or opened; read from a JSON Web Key Set (RFC 7517 section 5).

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use zeroize::Zeroizing;

use super::{Jwk, Key, KeyError, KeySet, SealingKey};

/// Keys by their agent, in the order of the file.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    by_agent: HashMap<String, Vec<Arc<Key>>>,
    sealing: BTreeMap<String, Arc<SealingKey>>,
    /// Of both.
    kids: HashSet<String>,
}

impl Keyring {
    /// Reads the text of a JSON Web Key Set.
    ///
    /// # Errors
    ///
    /// [`KeyError::Set`] or, with the `kid`, what is wrong with a key. One bad key refuses the set:
    /// an agent must not silently lose one.
    pub fn from_json(text: &str) -> Result<Keyring, KeyError> {
        KeySet::from_json(text)?.ring()
    }

    /// Adds a key for signatures.
    ///
    /// # Errors
    ///
    /// [`KeyError::Duplicate`] when its `kid` is taken.
    pub fn add(&mut self, key: Key) -> Result<(), KeyError> {
        if !self.kids.insert(key.kid.clone()) {
            return Err(KeyError::Duplicate(key.kid));
        }
        let keys = self.by_agent.entry(key.agent_id.clone()).or_default();
        keys.push(Arc::new(key));
        Ok(())
    }

    /// Adds a key for sealed payloads.
    ///
    /// # Errors
    ///
    /// [`KeyError::Duplicate`] when its `kid` is taken, also by a key for signatures.
    pub fn add_sealing(&mut self, key: SealingKey) -> Result<(), KeyError> {
        if !self.kids.insert(key.kid.clone()) {
            return Err(KeyError::Duplicate(key.kid));
        }
        self.sealing.insert(key.kid.clone(), Arc::new(key));
        Ok(())
    }

    /// Takes a key of either kind out; whether it was there.
    pub fn remove(&mut self, kid: &str) -> bool {
        self.by_agent.retain(|_, keys| {
            keys.retain(|key| key.kid != kid);
            !keys.is_empty()
        });
        self.sealing.remove(kid);
        self.kids.remove(kid)
    }

    /// The key for sealed payloads with this `kid`.
    pub fn sealing(&self, kid: &str) -> Option<&Arc<SealingKey>> {
        self.sealing.get(kid)
    }

    /// Every key for sealed payloads, sorted by `kid`.
    pub fn all_sealing(&self) -> impl Iterator<Item = &Arc<SealingKey>> {
        self.sealing.values()
    }

    /// An agent's keys for signatures.
    pub fn of(&self, agent_id: &str) -> &[Arc<Key>] {
        self.by_agent.get(agent_id).map_or(&[], Vec::as_slice)
    }

    /// Every key for signatures, sorted by agent, then as they were added.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Key>> {
        let mut agents: Vec<_> = self.by_agent.keys().collect();
        agents.sort_unstable();
        agents.into_iter().flat_map(|agent_id| self.of(agent_id))
    }

    /// The JSON Web Key Set, secrets included.
    ///
    /// # Errors
    ///
    /// [`KeyError::Set`] never in practice: keys have a JSON form.
    pub fn to_json(&self) -> Result<Zeroizing<String>, KeyError> {
        let signing = self.all().map(|key| Jwk::from(&**key));
        let sealing = self.all_sealing().map(|key| Jwk::from(&**key));
        signing.chain(sealing).collect::<KeySet>().to_json()
    }
}
