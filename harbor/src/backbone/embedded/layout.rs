//! How bodies, places in mailboxes and facts about agents lie in the embedded store: format 1.
//!
//! Beside a frame's way. All numbers are big-endian, so that keys sort as what they name.
//!
//! | part | key | value |
//! |---|---|---|
//! | `bodies` | seq u64 | length of members u32, members, frame |
//! | `entries` | agent id, NUL, seq u64 | see below |
//! | `agents` | agent id | JSON |
//! | `meta` | `version` | u32 |
//! | `meta` | `reserved` | u64: numbers below it may have been given |
//!
//! The value of an entry is 27 bytes:
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 8 | body u64 |
//! | 8 | 4 | bytes u32 |
//! | 12 | 8 | `deadline_ms` i64 |
//! | 20 | 1 | priority |
//! | 21 | 4 | deliveries u32 |
//! | 25 | 1 | 1 if a receipt is wanted, else 0 |
//! | 26 | 1 | 0, or why it is dead: 1 unacknowledged, 2 rejected |

use std::sync::Arc;

use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::{
    backbone::{Body, Entry},
    mailbox::DeadReason,
};

/// The layout that this module writes and reads.
pub(super) const VERSION: u32 = 1;

const ENTRY_BYTES: usize = 27;

pub(super) fn entry_key(agent_id: &str, seq: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(agent_id.len() + 9);
    key.extend_from_slice(agent_id.as_bytes());
    key.push(0);
    key.extend_from_slice(&seq.to_be_bytes());
    key
}

pub(super) fn entry_value(entry: &Entry) -> Vec<u8> {
    let mut value = Vec::with_capacity(ENTRY_BYTES);
    value.extend_from_slice(&entry.body.to_be_bytes());
    value.extend_from_slice(&entry.bytes.to_be_bytes());
    value.extend_from_slice(&entry.deadline_ms.to_be_bytes());
    value.push(entry.priority);
    value.extend_from_slice(&entry.deliveries.to_be_bytes());
    value.push(u8::from(entry.wants_receipt));
    value.push(entry.dead.map_or(0, dead_byte));
    value
}

/// The entry of this key and value; `None` if they are not of this layout. `last` is the agent of
/// the entry before, so that neighbours share one id.
pub(super) fn entry(key: &[u8], value: &[u8], last: Option<&Arc<str>>) -> Option<Entry> {
    let (rest, seq) = key.split_last_chunk::<8>()?;
    let id = str::from_utf8(rest.strip_suffix(&[0])?).ok()?;
    let agent_id = match last {
        Some(last) if **last == *id => Arc::clone(last),
        _ => Arc::from(id),
    };
    let (body, rest) = value.split_first_chunk::<8>()?;
    let (bytes, rest) = rest.split_first_chunk::<4>()?;
    let (deadline_ms, rest) = rest.split_first_chunk::<8>()?;
    let (&[priority], rest) = rest.split_first_chunk::<1>()?;
    let (deliveries, rest) = rest.split_first_chunk::<4>()?;
    let &[receipt, dead] = rest else {
        return None;
    };
    Some(Entry {
        agent_id,
        seq: u64::from_be_bytes(*seq),
        body: u64::from_be_bytes(*body),
        bytes: u32::from_be_bytes(*bytes),
        deadline_ms: i64::from_be_bytes(*deadline_ms),
        priority,
        deliveries: u32::from_be_bytes(*deliveries),
        wants_receipt: match receipt {
            0 => false,
            1 => true,
            _ => return None,
        },
        dead: dead_of(dead)?,
    })
}

pub(super) fn body_value(body: &Body) -> Vec<u8> {
    let members = body.members.as_bytes();
    // Longer ones were refused by `Change::check`.
    let length = u32::try_from(members.len()).unwrap_or(u32::MAX);
    let mut value = Vec::with_capacity(4 + members.len() + body.frame.len());
    value.extend_from_slice(&length.to_be_bytes());
    value.extend_from_slice(members);
    value.extend_from_slice(body.frame.as_bytes());
    value
}

pub(super) fn body(seq: u64, value: &[u8]) -> Option<Body> {
    let (length, rest) = value.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (members, frame) = rest.split_at_checked(length)?;
    Some(Body {
        seq,
        members: str::from_utf8(members).ok()?.into(),
        frame: Utf8Bytes::from(str::from_utf8(frame).ok()?),
    })
}

fn dead_byte(reason: DeadReason) -> u8 {
    match reason {
        DeadReason::Unacknowledged => 1,
        DeadReason::Rejected => 2,
    }
}

#[expect(clippy::option_option, reason = "none at all, or not of this layout")]
fn dead_of(byte: u8) -> Option<Option<DeadReason>> {
    Some(match byte {
        0 => None,
        1 => Some(DeadReason::Unacknowledged),
        2 => Some(DeadReason::Rejected),
        _ => return None,
    })
}
