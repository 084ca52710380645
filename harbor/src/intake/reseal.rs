//! The frame that each receiver gets: the sender's own bytes, or what Harbor sealed again. Stage 5 of a
//! frame's way.
//!
//! A sealed payload whose key is in the keyring is opened once, and sealed once for each key of a
//! receiver; any other is passed on as it is. [`Copies`] is made nowhere else, and only from a
//! `Permitted`: nothing is delivered without having been here.

use std::{collections::HashMap, sync::Arc};

use synapse::{
    Code, Envelope, Refusal,
    envelope::splice_harbor,
    keys::{Key, Keyring, SealingKey},
    limits::HARBOR_AGENT_ID,
    sealed::{self, Relay, RelayError},
};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::authorise::Permitted;
use crate::{clock, config::SealedWithoutKey, node::Node, registry::Agent, router::Route};

/// Who gets which frame.
#[derive(Debug)]
pub(crate) struct Copies<'r> {
    frames: Frames,
    hops: std::slice::Iter<'r, &'r Arc<Agent>>,
}

#[derive(Debug)]
enum Frames {
    /// One for all.
    Alike(Utf8Bytes),
    /// One for each, in their order; `None` for who gets nothing.
    Each(std::vec::IntoIter<Option<Utf8Bytes>>),
}

impl Frames {
    fn longest_bytes(&self) -> usize {
        match self {
            Frames::Alike(frame) => frame.len(),
            Frames::Each(frames) => {
                let lengths = frames.as_slice().iter().flatten().map(|frame| frame.len());
                lengths.max().unwrap_or(0)
            }
        }
    }
}

impl<'r> Iterator for Copies<'r> {
    type Item = (&'r Arc<Agent>, Utf8Bytes);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let agent = self.hops.next()?;
            let frame = match &mut self.frames {
                Frames::Alike(frame) => Some(frame.clone()),
                Frames::Each(frames) => frames.next()?,
            };
            if let Some(frame) = frame {
                return Some((agent, frame));
            }
        }
    }
}

/// Makes the frames for those a message goes to.
///
/// # Errors
///
/// [`Code::BadSeal`], [`Code::NoSealingKey`], [`Code::LimitExceeded`] for what would be longer than the
/// frames that clients are told to expect, and what Harbor cannot sign beside the payload.
pub(crate) fn copies<'r>(
    permitted: &Permitted<'_, '_>,
    frame: &str,
    route: &'r Route<'_>,
    node: &Node,
) -> Result<Copies<'r>, Refusal> {
    let ring = node.keys.ring();
    let frames = match held(permitted.envelope(), &ring)? {
        None => Frames::Alike(with_signer(frame, permitted.key()).into()),
        Some(key) => {
            Frames::Each(resealed(permitted, frame, route, (key, &ring), node)?.into_iter())
        }
    };
    if frames.longest_bytes() > node.config.max_frame_bytes {
        return Err(too_long(node));
    }
    Ok(Copies {
        frames,
        hops: route.hops.iter(),
    })
}

/// The sender's bytes, and what Harbor found out about them. A copy of its own: the frame is part of
/// the sender's read buffer, which would be kept whole for as long as the copy waits.
fn with_signer(frame: &str, signer: Option<&Key>) -> String {
    match signer {
        None => frame.to_owned(),
        Some(key) => {
            let verified = serde_json::json!({ "verified": key.kid });
            splice_harbor(frame, &verified.to_string())
        }
    }
}

/// The key of a sealed payload, if Harbor holds it.
fn held<'k>(
    envelope: &Envelope<'_>,
    ring: &'k Keyring,
) -> Result<Option<&'k Arc<SealingKey>>, Refusal> {
    if !envelope.encrypt {
        return Ok(None);
    }
    let kid = sealed::kid_of(envelope).ok_or_else(bad_seal)?;
    Ok(ring.sealing(&kid))
}

/// One frame for each of the route, in their order.
fn resealed(
    permitted: &Permitted<'_, '_>,
    frame: &str,
    route: &Route<'_>,
    (key, ring): (&SealingKey, &Keyring),
    node: &Node,
) -> Result<Vec<Option<Utf8Bytes>>, Refusal> {
    let (envelope, now) = (permitted.envelope(), clock::wall());
    let opened = Relay::open(envelope, frame, key, now);
    let relay = opened
        .ok()
        .filter(|_| may_open(envelope, key))
        .ok_or_else(bad_seal)?
        .verified(permitted.key().map(|key| &*key.kid));
    node.metrics.messages_opened.inc();
    let signer = ring.newest_signer(HARBOR_AGENT_ID, now).ok_or_else(|| {
        node.complain_of_seals("there is no live Ed25519 key of harbor to sign with");
        no_sealing_key(envelope, "this Harbor has no live key to sign with")
    })?;
    // By the receiver's key; that of the clear form is none.
    let mut made: HashMap<Option<&str>, Option<Utf8Bytes>> = HashMap::new();
    let mut frames = Vec::with_capacity(route.hops.len());
    for agent in &route.hops {
        let key = ring.newest_sealing(&agent.id, now);
        let made = match made.get(&key.map(|key| &*key.kid)) {
            Some(made) => made.clone(),
            None => {
                let frame = match key {
                    Some(key) => sealed_under(&relay, key, signer, now, node)?,
                    None => unsealed(&relay, signer, node)?,
                };
                made.entry(key.map(|key| &*key.kid))
                    .or_insert(frame)
                    .clone()
            }
        };
        frames.push(made);
    }
    let (with, without) = count(&frames);
    node.metrics.deliveries_without_key.inc_by(without);
    if with == 0 && without > 0 {
        let reason = "nobody of those who are there has a live key to seal with";
        return Err(no_sealing_key(envelope, reason));
    }
    Ok(frames)
}

fn count(frames: &[Option<Utf8Bytes>]) -> (u64, u64) {
    let with = frames.iter().flatten().count();
    (with as u64, (frames.len() - with) as u64)
}

/// The frame under a receiver's key; `None` if the key must not seal any more. Then it is not sent in
/// the clear either: the receiver has a key.
fn sealed_under(
    relay: &Relay<'_>,
    key: &SealingKey,
    signer: &Key,
    now: jiff::Timestamp,
    node: &Node,
) -> Result<Option<Utf8Bytes>, Refusal> {
    match relay.under(key, signer, now) {
        Ok(frame) => Ok(Some(frame.into())),
        Err(RelayError::Sign(refusal)) => Err(unsignable(refusal)),
        Err(RelayError::Seal(error)) => {
            node.complain_of_seals(&error.to_string());
            Ok(None)
        }
    }
}

/// The frame for a receiver without a key, if policy gives it one.
fn unsealed(relay: &Relay<'_>, signer: &Key, node: &Node) -> Result<Option<Utf8Bytes>, Refusal> {
    if node.config.sealed_without_key == SealedWithoutKey::Refuse {
        return Ok(None);
    }
    match relay.in_the_clear(signer) {
        Ok(frame) => Ok(Some(frame.into())),
        Err(RelayError::Sign(refusal)) => Err(unsignable(refusal)),
        Err(RelayError::Seal(_)) => Ok(None),
    }
}

/// What Harbor cannot sign: of the payload nothing is told, as it was sealed.
fn unsignable(refusal: Refusal) -> Refusal {
    match refusal.field.as_deref() {
        None | Some("payload") => bad_seal(),
        Some(_) => refusal,
    }
}

/// Whether a key is of somebody who has part in the message.
fn may_open(envelope: &Envelope<'_>, key: &SealingKey) -> bool {
    let receiver = envelope.receiver.as_ref().map(|to| &*to.agent_id);
    let owner = key.agent_id.as_str();
    [
        HARBOR_AGENT_ID,
        &envelope.sender.agent_id,
        &envelope.group_id,
    ]
    .contains(&owner)
        || receiver == Some(owner)
}

/// A client that reads frames of the announced length and no longer would be closed by it.
fn too_long(node: &Node) -> Refusal {
    let max = node.config.max_frame_bytes;
    let reason =
        format!("with what Harbor adds the message would be longer than {max} bytes, the most");
    Refusal::new(Code::LimitExceeded, reason)
}

/// One refusal for whatever is wrong with a seal, so that nobody learns from it.
fn bad_seal() -> Refusal {
    Refusal::of_field(Code::BadSeal, "payload", "the payload cannot be opened")
}

fn no_sealing_key(envelope: &Envelope<'_>, reason: &'static str) -> Refusal {
    let field = match envelope.receiver {
        Some(_) => "receiver.agent_id",
        None => "group_id",
    };
    Refusal::of_field(Code::NoSealingKey, field, reason)
}
