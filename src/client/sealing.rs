//! Sealing what is sent and opening what arrives, with the keys of the options.
//!
//! Just before a message is signed, and just before it goes into the inbox.

use std::borrow::Cow;

use super::options::Options;
use crate::{
    Envelope,
    envelope::Sealing,
    keys::{Keyring, SealingKey},
    sealed,
};

impl Options {
    /// Adds a key for sealed payloads; one of the same `kid` is replaced. An envelope is sealed with
    /// it on [`Envelope::seal_with`]; what arrives sealed with it is opened, as
    /// [`Envelope::is_opened`] tells. Default: none, and sealed payloads are handed over as they come.
    #[must_use]
    pub fn sealing_key(mut self, key: SealingKey) -> Self {
        self.sealing.remove(&key.kid);
        // The kid is free now, so this cannot fail.
        let _ = self.sealing.add_sealing(key);
        self
    }

    /// Adds every key for sealed payloads of a keyring; its keys for signatures are passed over.
    #[must_use]
    pub fn sealing_keys(self, ring: &Keyring) -> Self {
        ring.all_sealing()
            .fold(self, |options, key| options.sealing_key((**key).clone()))
    }

    /// The envelope as it goes out: sealed if it says so.
    pub(super) fn sealed(&self, envelope: Envelope<'static>) -> Result<Envelope<'static>, String> {
        let kid = match &envelope.sealing {
            Sealing::Untouched => return Ok(envelope),
            Sealing::With(kid) => kid,
            Sealing::Opened(_) if envelope.encrypt => {
                let reason = "encrypt is true and the payload is open; seal it again, or say false";
                return Err(reason.to_owned());
            }
            Sealing::Opened(_) => return Ok(envelope),
        };
        let Some(key) = self.sealing.sealing(kid) else {
            return Err(format!("there is no sealing key {kid:?}"));
        };
        sealed::seal(envelope, key, jiff::Timestamp::now()).map_err(|error| error.to_string())
    }

    /// The envelope as the application gets it: opened, if there is a key for it.
    pub(super) fn opened(&self, mut envelope: Envelope<'static>) -> Envelope<'static> {
        if !envelope.encrypt || self.sealing.all_sealing().next().is_none() {
            return envelope;
        }
        if let Ok(opened) = sealed::open(&envelope, &self.sealing, jiff::Timestamp::now()) {
            envelope.payload = Cow::Owned(opened.payload);
            envelope.sealing = Sealing::Opened(opened.kid);
        }
        envelope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        let key = SealingKey::generate("bob-1", "bob").unwrap();
        Options::new("ws://h:1", "alice").sealing_key(key)
    }

    fn message() -> Envelope<'static> {
        let mut message = Envelope::new("note").to("bob");
        message.id = "m".into();
        message.sender = crate::envelope::Endpoint::new("alice");
        message
    }

    #[test]
    fn what_was_opened_is_not_sent_as_if_it_were_sealed() {
        let options = options();
        let sealed = options.sealed(message().seal_with("bob-1")).unwrap();
        assert!(sealed.is_sealed() && !sealed.is_opened());
        assert!(options.sealed(sealed.clone()).unwrap().is_sealed());
        let mut opened = options.opened(sealed);
        assert!(opened.is_opened() && !opened.is_sealed());
        assert_eq!(opened.payload.get(), "null");
        assert!(options.sealed(opened.clone()).is_err());
        opened.encrypt = false;
        assert!(options.sealed(opened).is_ok());
    }

    #[test]
    fn an_unknown_key_is_told_before_sending() {
        let error = options().sealed(message().seal_with("eve-1")).unwrap_err();
        assert!(error.contains("eve-1"));
    }
}
