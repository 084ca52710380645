//! A new key: made here or taken from its agent, and its secret handed over.
//!
//! Beside a frame's way: what `harbor keys add` and `rotate` share.

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use synapse::{
    keys::{Algorithm, Jwk, KeySet, Purpose},
    limits::HARBOR_AGENT_ID,
};

use super::{DATA, Failure, Fresh, NO_INPUT, NO_OUTPUT, USAGE};
use crate::{clock, keys::Place};

/// Most bytes of a key that is given: far more than any has.
const GIVEN_BYTES_MAX: u64 = 1 << 20;

/// The path that means standard input, or standard output.
const STANDARD: &str = "-";

/// A secret that was written for its agent. The file goes away again unless it is kept.
pub(super) struct Handed {
    path: Option<PathBuf>,
}

impl Handed {
    /// The key is in the keyring.
    pub(super) fn keep(mut self) {
        self.path = None;
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

impl Fresh {
    /// Whether standard output is for the secret.
    pub(super) fn prints_secret(&self) -> bool {
        self.out.as_deref() == Some(Path::new(STANDARD))
    }

    /// The key that the agent made, if one is given. Before the keyring is locked: standard input may
    /// take its time.
    pub(super) fn given(&self, agent_id: &str) -> Result<Option<Jwk>, Failure> {
        let Some(path) = &self.public else {
            return Ok(None);
        };
        if self.out.is_some() {
            let problem = "--out: with --public there is no secret to write; the agent has it";
            return Err(Failure::new(USAGE, problem));
        }
        if agent_id == HARBOR_AGENT_ID {
            let problem = "--public: Harbor signs with its own key, so it needs the secret";
            return Err(Failure::new(USAGE, problem));
        }
        let named = |problem: &dyn std::fmt::Display| format!("{}: {problem}", path.display());
        let text = read(path).map_err(|error| Failure::new(NO_INPUT, named(&error)))?;
        let unfit = |problem: String| Failure::new(DATA, named(&problem));
        let keys = keys_of(&text).ok_or_else(|| unfit("not a JSON Web Key or a set".to_owned()))?;
        let jwk = self.pick(keys, agent_id).map_err(unfit)?;
        Ok(Some(jwk))
    }

    fn pick(&self, keys: Vec<Jwk>, agent_id: &str) -> Result<Jwk, String> {
        let is_its = |jwk: &Jwk| {
            (jwk.agent_id.is_empty() || jwk.agent_id == agent_id)
                && (self.kid.is_none() || jwk.kid.is_empty() || self.kid.as_ref() == Some(&jwk.kid))
        };
        let count = keys.len();
        let mut its: Vec<Jwk> = match count {
            // Whatever is wrong with the only one is said of it.
            1 => keys,
            _ => keys.into_iter().filter(is_its).collect(),
        };
        let (Some(mut jwk), true) = (its.pop(), its.is_empty()) else {
            return Err(format!(
                "one key of {agent_id:?} is needed; of {count} here, --kid names none or several"
            ));
        };
        if !jwk.agent_id.is_empty() && jwk.agent_id != agent_id {
            return Err(format!("agent_id: it is a key of {:?}", jwk.agent_id));
        }
        if jwk.kty != "OKP" {
            return Err("kty: OKP is needed; what is no pair has no public half".to_owned());
        }
        if !jwk.d.is_empty() {
            return Err(
                "d: this is the secret, which stays with the agent; its public half is needed"
                    .to_owned(),
            );
        }
        jwk.agent_id = agent_id.to_owned();
        // Libraries leave these out (RFC 7517 sections 4.2 and 4.4).
        for (member, default) in [
            (&mut jwk.alg, Algorithm::Ed25519.jwk()),
            (&mut jwk.usage, "sig"),
        ] {
            if member.is_empty() {
                *member = default.to_owned();
            }
        }
        Ok(jwk)
    }

    /// A key for the agent, as `given` or new, checked, with a name that is free in `set`.
    pub(super) fn key(
        &self,
        purpose: Purpose,
        agent_id: &str,
        given: Option<Jwk>,
        set: &KeySet,
    ) -> Result<Jwk, Failure> {
        let own = given.as_ref().map(|jwk| jwk.kid.clone());
        let own = own.filter(|kid| !kid.is_empty());
        let wanted = self.kid.clone().or(own);
        let kid = wanted.unwrap_or_else(|| set.free_kid(purpose, agent_id, clock::wall()));
        let mut jwk = match given {
            Some(jwk) => Jwk { kid, ..jwk },
            None => purpose
                .generate(&kid, agent_id)
                .map_err(|error| Failure::new(NO_INPUT, format!("random numbers: {error}")))?,
        };
        if let Some(at) = &self.not_after {
            at.as_str().clone_into(&mut jwk.not_after);
        }
        Ok(jwk)
    }

    /// Writes the secret for the agent, and gives what stays in the keyring.
    pub(super) fn hand_over(&self, jwk: Jwk, place: &Place) -> Result<(Jwk, Handed), Failure> {
        let is_harbors = jwk.agent_id == HARBOR_AGENT_ID && jwk.thumbprint().is_some();
        let out = match &self.out {
            None if self.public.is_some() || is_harbors => {
                return Ok((jwk, Handed { path: None }));
            }
            None => {
                let problem = match jwk.public() {
                    Some(_) => "the keyring keeps the public half alone",
                    None => "the agent needs it too",
                };
                let line = format!("--out FILE says where the key's secret goes: {problem}");
                return Err(Failure::new(USAGE, line));
            }
            Some(_) if is_harbors => {
                let problem = "--out: the secret of Harbor's own key stays in the keyring";
                return Err(Failure::new(USAGE, problem));
            }
            Some(out) if is_same(out, place.path()) => {
                let problem = "--out: this is the keyring; the agent needs a file of its own";
                return Err(Failure::new(USAGE, problem));
            }
            Some(out) => out,
        };
        let kept = jwk.public().unwrap_or_else(|| jwk.clone());
        let secret = KeySet::from_iter([jwk]);
        let unwritten = |error: &dyn std::fmt::Display| {
            Failure::new(NO_OUTPUT, format!("--out: {}: {error}", out.display()))
        };
        if self.prints_secret() {
            let text = secret.to_json().map_err(|error| unwritten(&error))?;
            let mut stdout = io::stdout().lock();
            let written = stdout
                .write_all(text.as_bytes())
                .and_then(|()| stdout.flush());
            // Without its secret the key is of no use, so this is not passed over.
            written.map_err(|error| unwritten(&error))?;
            return Ok((kept, Handed { path: None }));
        }
        secret.write_new(out).map_err(|error| unwritten(&error))?;
        let path = Some(out.clone());
        Ok((kept, Handed { path }))
    }
}

/// Refuses a key that cannot stand in the keyring, or never would be live.
pub(super) fn check(jwk: &Jwk, set: &KeySet) -> Result<(), Failure> {
    let unfit = |problem: String| Err(Failure::new(DATA, problem));
    if jwk.agent_id == HARBOR_AGENT_ID
        && matches!(jwk.purpose(), Some(Purpose::Sign(it)) if it != Algorithm::Ed25519)
    {
        let problem =
            "--algorithm: Harbor signs with Ed25519: whoever verifies HMAC could sign as Harbor";
        return Err(Failure::new(USAGE, problem));
    }
    if let Err(error) = KeySet::from_iter([jwk.clone()]).ring() {
        return unfit(error.to_string());
    }
    if let Some(taken) = set.find(&jwk.kid) {
        let (kid, agent_id) = (&taken.kid, &taken.agent_id);
        return unfit(format!("kid: {kid:?} is taken by a key of {agent_id:?}"));
    }
    let thumbprint = jwk.thumbprint();
    let mut others = set.keys().iter().filter(|_| thumbprint.is_some());
    if let Some(same) = others.find(|other| other.thumbprint() == thumbprint) {
        let (kid, agent_id) = (&same.kid, &same.agent_id);
        return unfit(format!(
            "x: the same key is there as {kid:?} of {agent_id:?}"
        ));
    }
    let (from, to) = jwk.life().map_err(|error| Failure::new(DATA, error))?;
    let first = from.map_or(clock::wall(), |from| from.max(clock::wall()));
    if to.is_some_and(|to| to <= first) {
        return unfit("not_after: the key would never be live".to_owned());
    }
    Ok(())
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    if path == Path::new(STANDARD) {
        io::stdin()
            .lock()
            .take(GIVEN_BYTES_MAX)
            .read_to_string(&mut text)?;
    } else {
        fs::File::open(path)?
            .take(GIVEN_BYTES_MAX)
            .read_to_string(&mut text)?;
    }
    Ok(text)
}

fn keys_of(text: &str) -> Option<Vec<Jwk>> {
    match KeySet::from_json(text) {
        Ok(set) => Some(set.keys().to_vec()),
        Err(_) => serde_json::from_str(text).ok().map(|jwk| vec![jwk]),
    }
}

/// Whether both are one file, which need not be there yet.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| {
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?;
        fs::canonicalize(path)
            .ok()
            .or_else(|| Some(folder.join(path.file_name()?)))
    };
    real(one).is_some() && real(one) == real(other)
}

/// A time as a key holds it, to the second: not before `at`.
pub(super) fn written(at: Timestamp) -> String {
    let ahead = jiff::SignedDuration::from_nanos(999_999_999);
    let at = at.checked_add(ahead).unwrap_or(Timestamp::MAX);
    Timestamp::from_second(at.as_second())
        .unwrap_or(at)
        .to_string()
}
