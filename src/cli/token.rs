//! `synapse token`: issues a bearer token, for tests and small fleets.
//!
//! Beside a frame's way; nothing is connected.

use jiff::Timestamp;
use synapse::{keys::Key, token::Claims};

use super::{
    args::{Connection, Token},
    failure::{Failure, NO_INPUT, USAGE},
    keyfiles, keys,
};

pub(crate) fn issue(connection: &Connection, token: &Token) -> Result<(), Failure> {
    let Some(agent_id) = &connection.agent else {
        return Err(Failure::new(USAGE, "--agent says whose token it is to be"));
    };
    let ring = keyfiles::needed(connection)?;
    let now = Timestamp::now();
    let usable: Vec<&Key> = ring
        .all()
        .map(|key| &**key)
        .filter(|key| token.kid.as_ref().is_none_or(|kid| *kid == key.kid))
        .filter(|key| key.can_issue() && key.is_live(now))
        .collect();
    let key = match usable[..] {
        [key] => key,
        [] => {
            let line = "there is no live key of this name in the files that can sign tokens: HMAC-SHA256, or Ed25519 with its secret";
            return Err(Failure::new(NO_INPUT, line));
        }
        _ => return Err(Failure::new(USAGE, "--kid says which key is meant")),
    };
    let claims = Claims {
        sub: agent_id.clone(),
        aud: token.audience.clone(),
        iss: token.issuer.clone(),
        iat: now.as_second(),
        exp: now.as_second() + i64::from(token.lifetime),
    };
    keys::print(&key.issue(&claims).unwrap_or_default())
}
