//! `harbor keys add`, `rotate` and `revoke`.
//!
//! Beside a frame's way. Each prints the keys that it changed, as `list --json` would.

use jiff::{SignedDuration, Timestamp};
use synapse::keys::{Algorithm, Jwk, KeySet, Purpose};

use super::{
    Add, DATA, Failure, NO_OUTPUT, Revoke, Rotate, USAGE, edit,
    fresh::{check, written},
    print,
    show::{Row, State},
};
use crate::{clock, keys::Place};

/// Makes a key, or takes one.
pub(super) fn add(add: &Add, place: &Place) -> Result<(), Failure> {
    let purpose = add.algorithm.unwrap_or(Purpose::Sign(Algorithm::Ed25519));
    let given = add.fresh.given(&add.agent)?;
    if given.is_some() && purpose != Purpose::Sign(Algorithm::Ed25519) {
        let problem = "--algorithm: a key that is given with --public is an Ed25519 key";
        return Err(Failure::new(USAGE, problem));
    }
    make_folder(place)?;
    let (line, handed) = edit(place, |set| {
        let mut jwk = add.fresh.key(purpose, &add.agent, given, set)?;
        if let Some(at) = &add.not_before {
            at.as_str().clone_into(&mut jwk.not_before);
        }
        check(&jwk, set)?;
        let (kept, handed) = add.fresh.hand_over(jwk, place)?;
        let line = Row::of(&kept, clock::wall()).to_json();
        put(set, kept)?;
        Ok((line, handed))
    })?;
    handed.keep();
    if add.fresh.prints_secret() {
        return Ok(());
    }
    print(&line)
}

/// Puts a newer key in the place of older ones.
pub(super) fn rotate(rotate: &Rotate, place: &Place) -> Result<(), Failure> {
    // Without the lock, only to know whose key may be given.
    let (agent_id, _, _) = older(&super::read(place)?, &rotate.which)?;
    let given = rotate.fresh.given(&agent_id)?;
    let (lines, handed) = edit(place, |set| {
        let now = clock::wall();
        let (agent_id, purpose, kids) = older(set, &rotate.which)?;
        if given.is_some() && purpose != Purpose::Sign(Algorithm::Ed25519) {
            let problem = format!("--public: the key it would replace is {}", purpose.name());
            return Err(Failure::new(USAGE, problem));
        }
        let jwk = rotate.fresh.key(purpose, &agent_id, given, set)?;
        check(&jwk, set)?;
        let (kept, handed) = rotate.fresh.hand_over(jwk, place)?;
        let overlap = SignedDuration::from_secs(i64::try_from(rotate.overlap).unwrap_or(i64::MAX));
        let end = now.checked_add(overlap).unwrap_or(Timestamp::MAX);
        let mut lines = Row::of(&kept, now).to_json();
        for jwk in set
            .keys_mut()
            .iter_mut()
            .filter(|jwk| kids.contains(&jwk.kid))
        {
            let (_, to) = jwk.life().map_err(|error| Failure::new(DATA, error))?;
            if to.is_none_or(|to| to > end) {
                jwk.not_after = written(end);
            }
            lines += &Row::of(jwk, now).to_json();
        }
        put(set, kept)?;
        Ok((lines, handed))
    })?;
    handed.keep();
    if rotate.fresh.prints_secret() {
        return Ok(());
    }
    print(&lines)
}

/// Takes a key out.
pub(super) fn revoke(revoke: &Revoke, place: &Place) -> Result<(), Failure> {
    super::read(place)?;
    let line = edit(place, |set| {
        let gone = set.remove(&revoke.kid).ok_or_else(|| {
            let problem = format!(
                "kid: there is no key {:?}; see harbor keys list",
                revoke.kid
            );
            Failure::new(DATA, problem)
        })?;
        let mut row = Row::of(&gone, clock::wall());
        row.state = State::Revoked;
        Ok(row.to_json())
    })?;
    print(&line)
}

fn put(set: &mut KeySet, jwk: Jwk) -> Result<(), Failure> {
    set.add(jwk).map_err(|error| Failure::new(DATA, error))
}

fn make_folder(place: &Place) -> Result<(), Failure> {
    place.make_folder().map_err(|error| {
        let folder = place.path().with_file_name("");
        Failure::new(NO_OUTPUT, format!("data: {}: {error}", folder.display()))
    })
}

/// The keys that are meant by a kid or an agent: whose they are, what they are for, and their names.
fn older(set: &KeySet, which: &str) -> Result<(String, Purpose, Vec<String>), Failure> {
    let named = set.find(which);
    let of_agent: Vec<&Jwk> = set
        .keys()
        .iter()
        .filter(|jwk| jwk.agent_id == which)
        .collect();
    let unclear = |problem: String| Failure::new(DATA, problem);
    let keys = match (named, of_agent.as_slice()) {
        (Some(jwk), []) => vec![jwk],
        (Some(jwk), _) if jwk.agent_id == which => vec![jwk],
        (None, []) => {
            let problem = format!("{which:?} is no key and no agent here; see harbor keys list");
            return Err(unclear(problem));
        }
        (None, _) => not_ended(of_agent),
        (Some(_), _) => {
            let problem =
                format!("{which:?} is a key of another agent, and an agent; name its key");
            return Err(unclear(problem));
        }
    };
    let purposes = keys.iter().filter_map(|jwk| jwk.purpose());
    let purposes: Vec<Purpose> = purposes.collect();
    let Some(first) = purposes.first() else {
        return Err(unclear(format!(
            "{which:?} has no key that can be made anew"
        )));
    };
    if purposes.iter().any(|purpose| purpose != first) {
        let kids: Vec<&str> = keys.iter().map(|jwk| jwk.kid.as_str()).collect();
        let kids = kids.join(", ");
        return Err(unclear(format!(
            "{which:?} has keys of several kinds; name one of {kids}"
        )));
    }
    let agent_id = keys.first().map_or(which, |jwk| &jwk.agent_id).to_owned();
    Ok((
        agent_id,
        *first,
        keys.iter().map(|jwk| jwk.kid.clone()).collect(),
    ))
}

/// Those that have not ended, or else the newest.
fn not_ended(keys: Vec<&Jwk>) -> Vec<&Jwk> {
    let now = clock::wall();
    let newest = keys.last().copied();
    let left: Vec<&Jwk> = keys
        .into_iter()
        .filter(|jwk| State::of(jwk, now) != State::Ended)
        .collect();
    if left.is_empty() {
        newest.into_iter().collect()
    } else {
        left
    }
}
