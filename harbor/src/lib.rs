//! Synapse Harbor, a message-bus broker for AI agents over WebSocket.
//!
//! The modules stand in the order a frame meets them:
//!
//! | stage | module | does |
//! |---|---|---|
//! | | [`config`] | what was written, and what is meant |
//! | | `limits` | every bound that is not configured |
//! | | [`harbor`] | binds, serves, drains |
//! | | `node` | the parts of one node |
//! | door | `listen` | TCP, HTTP, the upgrade to WebSocket |
//! | door | `tls` | the certificate, the client's, and new ones |
//! | 0 | `handshake` | challenge and registration |
//! | | `session` | who is registered here |
//! | | [`connection`] | the loop of one agent; its socket, outbox and heartbeat |
//! | 1–6 | `intake` | **the way on one screen**: decode, verify, authorise, route, reseal, deliver |
//! | 4 | [`router`] | decides who gets a copy |
//! | to come | [`mailbox`] | what waits for an agent, and what was not acknowledged |
//! | 6 | `delivery` | puts the copies into outboxes |
//! | to be asked | [`backbone`] | what outlives a connection: bodies, places in mailboxes, facts about agents |
//! | | `answer` | the frames Harbor writes itself |
//! | asked | [`registry`] | who is connected |
//! | asked | [`groups`] | members, roles, watchers |
//! | asked | `duplicates` | which ids a sender has used lately |
//! | asked | [`keys`] | whose keys are live, and the command that changes the keyring |
//! | asked | `tokens` | who a bearer token says its bearer is |
//! | asked | [`permissions`] | what each agent may do |
//! | beside | `upkeep` | once a second: files, keys and permissions that changed or ended |
//! | asked | `watched` | files that are followed |
//! | asked | `clock` | the only source of time |
//! | door | `gateway` | the HTTP routes |
//! | outward | `metrics` | what is counted |
//! | end | `drain` | going away |

pub mod config;

mod limits;

pub mod harbor;

mod node;

mod listen;

mod tls;

mod handshake;

mod session;

pub mod connection;

mod intake;

pub mod router;

pub mod mailbox;

mod delivery;

pub mod backbone;

mod answer;

pub mod registry;

pub mod groups;

mod duplicates;

pub mod keys;

pub mod permissions;
mod tokens;

mod upkeep;

mod watched;

mod clock;

mod gateway;

mod metrics;

mod drain;

pub use config::{Config, Settings};
pub use harbor::{Harbor, StartError};
