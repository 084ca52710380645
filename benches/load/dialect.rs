//! What is said to each broker: how a client registers, and what a message looks like.
//!
//! Messages of one size are of one size in bytes for both, so that the sockets carry the same.

use crate::wire::{Connection, ID_LEN, Template};
use crate::{Result, turn};

/// Different envelopes of each sender.
const DIFFERENT: usize = 64;
/// Why there is no message.
const TOO_SMALL: &str = "messages are too small for their address";

/// One broker under test, with what its senders ask of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// The bare relay: the floor.
    Relay,
    /// The bare relay once more: how far two runs of the same thing lie apart.
    RelayAgain,
    /// The bare relay that also answers each frame: the floor of `HarborEach`.
    RelayAcks,
    /// Harbor with `confirm: "refusals"`: as many frames as the relay.
    HarborRefusals,
    /// Harbor with `confirm: "each"`: an answer to every message.
    HarborEach,
}

impl Variant {
    /// All of them, in the order they are measured in.
    pub(crate) const ALL: [Variant; 5] = [
        Variant::Relay,
        Variant::HarborRefusals,
        Variant::RelayAcks,
        Variant::HarborEach,
        Variant::RelayAgain,
    ];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Variant::Relay => "relay",
            Variant::RelayAgain => "relay again",
            Variant::RelayAcks => "relay, acks",
            Variant::HarborRefusals => "harbor, refusals",
            Variant::HarborEach => "harbor, each",
        }
    }

    pub(crate) fn is_harbor(self) -> bool {
        matches!(self, Variant::HarborRefusals | Variant::HarborEach)
    }

    /// Whether every message sent is answered to its sender.
    pub(crate) fn acknowledges(self) -> bool {
        matches!(self, Variant::RelayAcks | Variant::HarborEach)
    }

    /// What this one is compared with.
    pub(crate) fn floor(self) -> Variant {
        match self {
            Variant::HarborEach => Variant::RelayAcks,
            _ => Variant::Relay,
        }
    }

    pub(crate) fn path(self) -> &'static str {
        "/ws"
    }

    /// Registers agent number `agent`, in group number `group` if there is one.
    pub(crate) async fn register(
        self,
        connection: &mut Connection,
        agent: u32,
        group: Option<u32>,
    ) -> Result<()> {
        if self.is_harbor() {
            return self.register_at_harbor(connection, agent, group).await;
        }
        let group = group
            .map(|group| format!("g{group:07}"))
            .unwrap_or_default();
        connection.send(&format!("r{agent:07}{group}")).await?;
        match connection.reader.next().await?.as_slice() {
            b"registered" => Ok(()),
            other => Err(format!("not registered: {}", String::from_utf8_lossy(other)).into()),
        }
    }

    async fn register_at_harbor(
        self,
        connection: &mut Connection,
        agent: u32,
        group: Option<u32>,
    ) -> Result<()> {
        let challenge: serde_json::Value =
            serde_json::from_slice(&connection.reader.next().await?)?;
        let nonce = &challenge["payload"]["nonce"];
        let groups =
            group.map(|group| format!(r#"{{"group_id":"group-{group}","role":"member"}}"#));
        let groups = groups.unwrap_or_default();
        let confirm = if self == Variant::HarborEach {
            "each"
        } else {
            "refusals"
        };
        let timestamp = jiff::Timestamp::now();
        let register = format!(
            r#"{{"id":"register","version":"1.0.0","type":"synapse.register","sender":{{"agent_id":"agent-{agent}","system_id":"bench"}},"payload":{{"nonce":{nonce},"confirm":"{confirm}","groups":[{groups}]}},"timestamp":"{timestamp}"}}"#
        );
        connection.send(&register).await?;
        let answer = connection.reader.next().await?;
        let parsed: serde_json::Value = serde_json::from_slice(&answer)?;
        if parsed["type"] == "synapse.registered" {
            return Ok(());
        }
        Err(format!("not registered: {}", String::from_utf8_lossy(&answer)).into())
    }

    /// A message from agent `from` to agent `to`.
    pub(crate) fn direct(self, from: u32, to: u32, bytes: usize) -> Result<Template> {
        if self.is_harbor() {
            return envelopes(
                from,
                &format!(r#""receiver":{{"agent_id":"agent-{to}"}}"#),
                bytes,
            );
        }
        prefixed(&format!("p{to:07}"), bytes)
    }

    /// A message from agent `from` to group `group`.
    pub(crate) fn to_group(self, from: u32, group: u32, bytes: usize) -> Result<Template> {
        if self.is_harbor() {
            return envelopes(from, &format!(r#""group_id":"group-{group}""#), bytes);
        }
        prefixed(&format!("g{group:07}"), bytes)
    }
}

/// The relay's messages: target, id, filler.
fn prefixed(prefix: &str, bytes: usize) -> Result<Template> {
    let fill = bytes.checked_sub(prefix.len() + ID_LEN).ok_or(TOO_SMALL)?;
    let text = format!("{prefix}{}{}", "0".repeat(ID_LEN), "x".repeat(fill));
    Ok(Template::new(&[text], prefix.len()))
}

/// Harbor's messages: envelopes that differ.
fn envelopes(from: u32, destination: &str, bytes: usize) -> Result<Template> {
    let mut rng = fastrand::Rng::with_seed(u64::from(from));
    let id = "0".repeat(ID_LEN);
    let one = |_| turn::envelope(&mut rng, &id, from, destination, bytes);
    let texts: Vec<String> = (0..DIFFERENT).map_while(one).collect();
    if texts.is_empty() {
        return Err(TOO_SMALL.into());
    }
    Ok(Template::new(&texts, turn::HEAD.len()))
}
