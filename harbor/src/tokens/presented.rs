//! Where a token stands in a request: `Authorization` (RFC 6750 section 2.1), or a subprotocol.
//!
//! At the door of a frame's way. Never in the URL, which ends up in logs (RFC 6750 section 5.3).

use axum::http::{HeaderMap, HeaderValue, header};
use synapse::{Code, Refusal, limits::SUBPROTOCOL_BEARER};

/// The one token of a request, and the header it came in.
///
/// # Errors
///
/// [`Code::BadToken`] for two that differ, and for an `Authorization` that is none of ours: whoever
/// shows something is not taken for nobody.
pub(super) fn find(headers: &HeaderMap) -> Result<Option<(&'static str, &str)>, Refusal> {
    let mut found: Option<(&'static str, &str)> = None;
    let authorized = headers.get_all(header::AUTHORIZATION).iter().map(bearer);
    let offered = headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .flat_map(offered_tokens);
    for presented in authorized.chain(offered) {
        let (place, token) = presented?;
        match found {
            Some((_, other)) if other != token => {
                let reason = "two different tokens were given; one is enough";
                return Err(Refusal::of_field(Code::BadToken, place, reason));
            }
            Some(_) => {}
            None => found = Some((place, token)),
        }
    }
    Ok(found)
}

fn offered_tokens(
    value: &HeaderValue,
) -> impl Iterator<Item = Result<(&'static str, &str), Refusal>> {
    const PLACE: &str = "Sec-WebSocket-Protocol";
    let text = value.to_str().map_err(|_| {
        let reason = "Sec-WebSocket-Protocol holds bytes that are in no subprotocol";
        Refusal::of_field(Code::BadToken, PLACE, reason)
    });
    let (text, refusal) = match text {
        Ok(text) => (text, None),
        Err(refusal) => ("", Some(Err(refusal))),
    };
    let tokens = text
        .split(',')
        .filter_map(|offered| offered.trim().strip_prefix(SUBPROTOCOL_BEARER));
    refusal
        .into_iter()
        .chain(tokens.map(|token| Ok((PLACE, token))))
}

fn bearer(value: &HeaderValue) -> Result<(&'static str, &str), Refusal> {
    let text = value.to_str().unwrap_or_default();
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    if scheme.eq_ignore_ascii_case("Bearer") {
        return Ok(("Authorization", token.trim()));
    }
    let reason = "Authorization holds something else than Bearer and a token";
    Err(Refusal::of_field(Code::BadToken, "Authorization", reason))
}
