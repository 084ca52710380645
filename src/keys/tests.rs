//! Goal: a key is taken only if it proves something, and its secret goes nowhere.
//! Method: every kind through its JSON and back; each member of a JWK made wrong.

use super::*;

fn generate(algorithm: Algorithm) -> Key {
    Key::generate("k", "alice", algorithm).unwrap()
}

#[test]
fn every_kind_goes_through_its_json_and_back() {
    for algorithm in Algorithm::ALL {
        let mut key = generate(algorithm);
        key.not_after = Some("2030-01-01T00:00:00Z".parse().unwrap());
        let mut ring = Keyring::default();
        ring.add(key).unwrap();
        let text = ring.to_json().unwrap();
        let again = Keyring::from_json(&text).unwrap();
        assert_eq!(*again.to_json().unwrap(), *text);
        assert_eq!(again.of("alice")[0].algorithm(), algorithm);
        assert!(again.of("bob").is_empty());
    }
}

#[test]
fn the_public_half_of_an_ed25519_key_has_no_secret() {
    let public = Jwk::from(&generate(Algorithm::Ed25519).public().unwrap());
    assert!(public.d.is_empty() && !public.x.is_empty());
    assert!(generate(Algorithm::HmacSha256).public().is_none());
}

#[test]
fn what_is_wrong_with_a_key_is_said_and_its_secret_is_not() {
    let hmac = || Jwk::from(&generate(Algorithm::HmacSha512));
    let pair = || Jwk::from(&generate(Algorithm::Ed25519));
    let secret = hmac().k;
    let with = |mut jwk: Jwk, change: &dyn Fn(&mut Jwk)| {
        change(&mut jwk);
        jwk
    };
    let cases = [
        ("kid", with(hmac(), &|jwk| jwk.kid.clear())),
        (
            "agent_id",
            with(hmac(), &|jwk| jwk.agent_id = "\u{0}".into()),
        ),
        ("use", with(hmac(), &|jwk| jwk.usage = "enc".into())),
        ("alg", with(hmac(), &|jwk| jwk.alg = "none".into())),
        ("kty", with(hmac(), &|jwk| jwk.kty = "OKP".into())),
        ("kty", with(hmac(), &|jwk| jwk.alg = "EdDSA".into())),
        (
            "k",
            with(hmac(), &|jwk| jwk.k = secret[..80].to_owned().into()),
        ),
        (
            "k",
            with(hmac(), &|jwk| jwk.k = format!("{}=", *secret).into()),
        ),
        (
            "not_before",
            with(hmac(), &|jwk| jwk.not_before = "soon".into()),
        ),
        ("crv", with(pair(), &|jwk| jwk.crv = "X25519".into())),
        ("x", with(pair(), &|jwk| jwk.x = pair().x)),
        ("x", with(pair(), &|jwk| jwk.x.clear())),
    ];
    for (want, jwk) in cases {
        let Err(KeyError::Member { member, reason }) = jwk.to_key() else {
            panic!("{want} was taken");
        };
        assert_eq!(member, want);
        assert!(!reason.contains(&secret[..40]));
    }
    let key = hmac();
    assert!(!format!("{key:?} {:?}", key.to_key()).contains(&key.k[..10]));
}

/// Points of small order, and other spellings of them, as dalek's pull request 153 tells of them.
#[test]
fn small_order_keys_are_refused() {
    for hex in [
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    ] {
        let bytes: Vec<u8> = (0..32)
            .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        assert!(Key::from_public("k", "a", &bytes).is_err(), "{hex}");
    }
}

#[test]
fn a_key_is_live_from_its_first_moment_to_before_its_last() {
    let mut key = generate(Algorithm::Ed25519);
    let live = |key: &Key, at: &str| key.is_live(at.parse().unwrap());
    key.not_before = Some("2026-01-01T00:00:00Z".parse().unwrap());
    key.not_after = Some("2026-02-01T00:00:00Z".parse().unwrap());
    assert!(!live(&key, "2025-12-31T23:59:59.9Z") && !live(&key, "2026-02-01T00:00:00Z"));
    assert!(live(&key, "2026-01-01T00:00:00Z") && live(&key, "2026-01-31T23:59:59Z"));
}

#[test]
fn a_ring_has_each_kid_once_and_its_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut ring = Keyring::default();
    ring.add(generate(Algorithm::Ed25519)).unwrap();
    let again = ring.add(generate(Algorithm::HmacSha256));
    assert!(matches!(again, Err(KeyError::Duplicate(kid)) if kid == "k"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    for _ in 0..2 {
        ring.write(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(Keyring::from_file(&path).unwrap().all().count(), 1);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(ring.remove("k") && !ring.remove("k") && ring.of("alice").is_empty());
}

#[test]
fn a_set_holds_keys_of_both_kinds_and_confuses_them_never() {
    type Change<'c> = &'c dyn Fn(&mut Jwk);
    let sealing = SealingKey::generate("s", "alice").unwrap();
    let mut ring = Keyring::default();
    ring.add(generate(Algorithm::HmacSha256)).unwrap();
    ring.add_sealing(sealing.clone()).unwrap();
    let again = ring.add_sealing(SealingKey::generate("k", "bob").unwrap());
    assert!(matches!(again, Err(KeyError::Duplicate(kid)) if kid == "k"));
    let text = ring.to_json().unwrap();
    let mut read = Keyring::from_json(&text).unwrap();
    assert_eq!(*read.to_json().unwrap(), *text);
    assert_eq!((read.of("alice").len(), read.all().count()), (1, 1));
    assert_eq!(read.sealing("s").unwrap().secret(), sealing.secret());
    assert!(read.sealing("k").is_none());
    assert!(read.remove("s") && read.all_sealing().count() == 0);

    let jwk = Jwk::from(&sealing);
    assert_eq!(
        (&*jwk.kty, &*jwk.usage, &*jwk.alg),
        ("oct", "enc", "A256GCM")
    );
    let with = |change: &dyn Fn(&mut Jwk)| {
        let mut jwk = jwk.clone();
        change(&mut jwk);
        (jwk.to_sealing_key().err(), jwk.to_key().err())
    };
    let longer = Jwk::from(&generate(Algorithm::HmacSha512)).k;
    let cases: [(&str, Change<'_>); 7] = [
        ("alg", &|jwk| jwk.alg = "HS256".into()),
        ("alg", &|jwk| jwk.alg = "dir".into()),
        ("use", &|jwk| jwk.usage = "sig".into()),
        ("use", &|jwk| jwk.usage.clear()),
        ("kty", &|jwk| jwk.kty = "OKP".into()),
        ("k", &|jwk| jwk.k = longer.clone()),
        ("k", &|jwk| jwk.k = jwk.k[..40].to_owned().into()),
    ];
    for (want, change) in cases {
        let (as_sealing, as_signing) = with(change);
        assert!(as_signing.is_some(), "{want}");
        let Some(KeyError::Member { member, reason }) = as_sealing else {
            panic!("{want} was taken");
        };
        assert_eq!(member, want);
        assert!(!reason.contains(&jwk.k[..10]));
    }
    assert!(!format!("{sealing:?} {jwk:?}").contains(&jwk.k[..10]));
}

#[test]
fn clones_of_a_sealing_key_share_their_count() {
    let key = SealingKey::generate("s", "alice").unwrap();
    key.set_seals(SEALS_MAX - 1);
    assert!(key.clone().count_seal());
    assert!(!key.count_seal() && !key.clone().count_seal());
}
