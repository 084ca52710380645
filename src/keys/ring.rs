//! All keys of a file: those that sign are found by agent, those that seal by `kid`.
//!
//! Asked where a message is verified, and where a payload is sealed or opened; read from a JSON Web Key Set (RFC 7517 section 5).

mod merge;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use zeroize::Zeroizing;

use super::{Algorithm, Jwk, Key, KeyError, KeySet, SealingKey};

/// Keys by their agent, in the order of the file.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    by_agent: HashMap<String, Vec<Arc<Key>>>,
    sealing: HashMap<String, Arc<SealingKey>>,
    sealing_by_agent: HashMap<String, Vec<Arc<SealingKey>>>,
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
        let key = Arc::new(key);
        let keys = self
            .sealing_by_agent
            .entry(key.agent_id.clone())
            .or_default();
        keys.push(Arc::clone(&key));
        self.sealing.insert(key.kid.clone(), key);
        Ok(())
    }

    /// Takes a key of either kind out; whether it was there.
    pub fn remove(&mut self, kid: &str) -> bool {
        self.by_agent.retain(|_, keys| {
            keys.retain(|key| key.kid != kid);
            !keys.is_empty()
        });
        self.sealing_by_agent.retain(|_, keys| {
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

    /// An agent's or a group's keys for sealed payloads, as they were added.
    pub fn sealing_of(&self, agent_id: &str) -> &[Arc<SealingKey>] {
        self.sealing_by_agent
            .get(agent_id)
            .map_or(&[], Vec::as_slice)
    }

    /// Every key for sealed payloads, sorted by agent, then as they were added.
    pub fn all_sealing(&self) -> impl Iterator<Item = &Arc<SealingKey>> {
        let mut agents: Vec<_> = self.sealing_by_agent.keys().collect();
        agents.sort_unstable();
        agents
            .into_iter()
            .flat_map(|agent_id| self.sealing_of(agent_id))
    }

    /// The newest of an agent's live keys for sealed payloads: of the latest `not_before`, and of
    /// several such the one that was added last.
    pub fn newest_sealing(&self, agent_id: &str, at: jiff::Timestamp) -> Option<&Arc<SealingKey>> {
        let live = self.sealing_of(agent_id).iter();
        live.filter(|key| key.is_live(at))
            .max_by_key(|key| key.not_before)
    }

    /// The newest, by the same rule, of an agent's live Ed25519 keys that can sign.
    pub fn newest_signer(&self, agent_id: &str, at: jiff::Timestamp) -> Option<&Arc<Key>> {
        let live = self.of(agent_id).iter().filter(|key| key.is_live(at));
        live.filter(|key| key.algorithm() == Algorithm::Ed25519 && key.can_sign())
            .max_by_key(|key| key.not_before)
    }

    /// Has the keys for sealed payloads that are in `older` too go on counting their seals from
    /// there, for a file that was read again.
    pub fn keep_counts(&self, older: &Keyring) {
        for key in self.sealing.values() {
            if let Some(same) = older.sealing(&key.kid).filter(|it| it.is_same_as(key)) {
                key.count_from(same);
            }
        }
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
