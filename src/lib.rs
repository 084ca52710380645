//! The Synapse message protocol for AI agents: what an agent and a Harbor must agree on.
//!
//! A frame's way starts and ends here: an agent builds an [`Envelope`], Harbor reads it by
//! borrowing and forwards the same bytes, another agent reads it again.
//!
//! | module | holds |
//! |---|---|
//! | [`limits`] | every bound of the protocol, with its unit and reason |
//! | [`refusal`] | the table of refusals and of close codes |
//! | [`address`] | ids of agents, groups and roles, and what makes one valid |
//! | [`timestamp`] | RFC 3339 times as the protocol accepts them |
//! | [`json`] | what is refused in a frame's JSON before its meaning is read |
//! | [`envelope`] | the envelope: reading, building, addressing, splicing |
//! | [`canonical`] | the bytes a signature covers |
//! | [`keys`] | keys of agents, and the file they stand in |
//! | [`sealed`] | payloads that only the holders of a key can read |
//! | [`signature`] | signing envelopes, and checking who signed |
//! | [`token`] | issuing bearer tokens, for tests and small fleets |
//! | [`control`] | the payloads of the `synapse.*` vocabulary |
#![cfg_attr(
    feature = "tls",
    doc = "| [`tls`] | certificates and keys from PEM files |"
)]
#![cfg_attr(
    feature = "client",
    doc = "| [`client`] | a connection that keeps itself alive |

An agent in full, which answers whatever it is asked:

```no_run
use synapse::{Client, Envelope, client::Options};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::connect(Options::new(\"ws://127.0.0.1:7420/ws\", \"worker\")).await?;
    while let Some(request) = client.next().await {
        let answer = Envelope::new(\"answer\").payload_of(&\"at once\")?;
        client.reply(&request, answer).await?;
    }
    Ok(())
}
```"
)]

pub mod limits;

pub mod refusal;

pub mod address;

pub mod timestamp;

pub mod json;

pub mod envelope;

pub mod canonical;

pub mod keys;

pub mod sealed;

pub mod signature;

pub mod token;

pub mod control;

#[cfg(feature = "tls")]
pub mod tls;

#[cfg(feature = "client")]
pub mod client;

#[cfg(feature = "client")]
pub use client::Client;
pub use envelope::Envelope;
pub use refusal::{Code, Refusal};

/// Keeps the Rust of the README compiling.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../README.md")]
struct Readme;
