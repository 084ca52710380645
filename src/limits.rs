//! Every bound of the protocol, unit last, with the reason beside it.
//!
//! Stands before a frame's way: decoding refuses what is beyond these, at the edge.

/// Longest message `id` (and `correlation_id`), in bytes of UTF-8. Long enough for any UUID, ULID
/// or hash in hex, short enough that a sender's recent ids fit in memory.
pub const MESSAGE_ID_BYTES_MAX: usize = 128;

/// Longest name (agent, group, role, system, conversation, type), in bytes of UTF-8.
pub const NAME_BYTES_MAX: usize = 256;

/// Longest free text in an endpoint (`agent_name`, `endpoint`, `version`), in bytes of UTF-8.
pub const TEXT_BYTES_MAX: usize = 2_048;

/// Most `capabilities` one endpoint may list: a discovery answer carries them all.
pub const CAPABILITIES_MAX: usize = 256;

/// Deepest nesting of a frame's JSON, in levels, the envelope's own braces being level 1.
/// RFC 8259 section 9 lets an implementation set it; recursive readers everywhere survive this one.
pub const JSON_DEPTH_MAX: usize = 128;

/// Largest frame, in bytes, unless the broker's configuration says otherwise (1 MiB).
pub const FRAME_BYTES_MAX_DEFAULT: usize = 1 << 20;

/// Priority of a message that names none, on the scale 1..=9 (a higher one goes first).
pub const PRIORITY_DEFAULT: u8 = 4;

/// Highest priority.
pub const PRIORITY_MAX: u8 = 9;

/// The protocol's version as written in `version`; another major is refused.
pub const VERSION: &str = "1.0.0";

/// The WebSocket subprotocol a client may ask for (RFC 6455 section 1.9).
pub const SUBPROTOCOL: &str = "synapse.v1";

/// What stands before a token that is offered as a subprotocol, for browsers, which can set no header.
pub const SUBPROTOCOL_BEARER: &str = "synapse.bearer.";

/// Longest token, in bytes: room for some thousand characters of claims, little enough to check at
/// the door for anybody.
pub const TOKEN_BYTES_MAX: usize = 8_192;

/// Harbor's own address.
pub const HARBOR_AGENT_ID: &str = "harbor";

const _: () = assert!(MESSAGE_ID_BYTES_MAX <= NAME_BYTES_MAX);
const _: () = assert!(PRIORITY_DEFAULT > 0 && PRIORITY_DEFAULT <= PRIORITY_MAX);
const _: () = assert!(
    JSON_DEPTH_MAX <= 128,
    "serde_json refuses deeper nesting than 128"
);
