//! Goal: no secret of a key leaves the keyring, and no token is repeated: not in logs, metrics, answers or complaints.
//! Method: a Harbor that logs all it can, agents that register rightly and wrongly, and a look for
//! every secret, in each spelling it could have, in all that came out.

mod tokens;

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use synapse::{
    Envelope,
    client::{Client, Options},
    envelope::Endpoint,
    keys::{Algorithm, Jwk, Key, SealingKey},
    sealed,
};

use crate::support::{
    binary,
    guarded::{KeysFile, ring_of},
    harbor::EVERYTHING_PERMITTED,
    process::Process,
};

/// A secret as it could be written; its beginning is enough to be found.
fn spellings(jwk: &Jwk) -> Vec<String> {
    let text = if jwk.k.is_empty() { &jwk.d } else { &jwk.k };
    let bytes = URL_SAFE_NO_PAD.decode(&**text).unwrap();
    let start = &bytes[..12];
    let hex: String = start.iter().map(|byte| format!("{byte:02x}")).collect();
    let list = format!("{start:?}");
    vec![
        text[..16].to_owned(),
        STANDARD.encode(start),
        hex.to_uppercase(),
        hex,
        list.trim_matches(['[', ']']).to_owned(),
    ]
}

/// What is sealed by every agent.
const SEALED: &str = "the place of the treasure";

/// What a client is told of a message that another key than its name says has sealed.
async fn sealed_badly(client: &Client, key: &SealingKey) -> String {
    let wrong = SealingKey::generate(&key.kid, &key.agent_id).unwrap();
    let mut message = Envelope::new("note").payload_of(&SEALED).unwrap();
    message = message.to(key.agent_id.clone());
    message.id = "sealed-badly".into();
    message.sender = Endpoint::new(key.agent_id.clone());
    let message = sealed::seal(message, &wrong, jiff::Timestamp::now()).unwrap();
    let error = client.send(message).await.unwrap_err();
    let told = format!("{error} {error:?}");
    assert!(told.contains("cannot be opened"), "{told}");
    told
}

#[tokio::test]
async fn secrets_are_in_nothing_that_comes_out() {
    let [mac, long_mac, pair] = Algorithm::ALL
        .map(|algorithm| Key::generate(algorithm.wire(), algorithm.jwk(), algorithm).unwrap());
    let harbors = Key::generate("harbor-1", "harbor", Algorithm::Ed25519).unwrap();
    let keys = [mac, long_mac, pair, harbors];
    // Of every agent, as each is the receiver of its own.
    let sealing = Algorithm::ALL.map(|algorithm| {
        let agent_id = algorithm.jwk();
        SealingKey::generate(format!("{agent_id}-seal"), agent_id).unwrap()
    });
    let mut ring = ring_of(&[&keys[0], &keys[1], &keys[2], &keys[3]]);
    for key in &sealing {
        ring.add_sealing(key.clone()).unwrap();
    }
    let file = KeysFile::new(&ring);
    let path = &file.path;
    let arguments = [&["--log-level", "trace"], &file.arguments()[..]].concat();
    let harbor = Process::with_files(256, &arguments).await;
    let harbor = harbor.monitored_with(&file.monitor());
    let mut came_out = String::new();
    for (key, seal) in keys.iter().zip(&sealing) {
        let options = Options::new(&harbor.url, &key.agent_id);
        let client = Client::connect(options.clone().key(key.clone()).sealing_key(seal.clone()))
            .await
            .unwrap();
        let message = Envelope::new("note").to(key.agent_id.clone());
        client.send(message.clone()).await.unwrap();
        came_out += &client.next().await.unwrap().to_json();
        let message = message.payload_of(&SEALED).unwrap().seal_with(&seal.kid);
        client.send(message).await.unwrap();
        let got = client.next().await.unwrap();
        assert_eq!(got.payload.get(), format!("{SEALED:?}"));
        came_out += got.harbor.unwrap().get();
        came_out += &sealed_badly(&client, seal).await;
        came_out += &format!("{client:?} {key:?} {:?} {seal:?}", Jwk::from(key));
        client.close().await;
        let unsigned = Client::connect(options.clone()).await.unwrap_err();
        let another = Key::generate("x", &key.agent_id, key.algorithm()).unwrap();
        let wrong = Client::connect(options.key(another)).await.unwrap_err();
        came_out += &format!("{unsigned} {unsigned:?} {wrong} {wrong:?}");
    }
    came_out += &harbor.metrics().await;
    came_out += &harbor.said().await;
    // What the commands say of the same keys.
    let new = path.with_file_name("new.json").display().to_string();
    let keyring = path.display().to_string();
    for command in [
        &["list"][..],
        &["list", "--json"],
        &["export"],
        &["rotate", "Ed25519", "--out", &new],
        &["revoke", "Ed25519"],
    ] {
        let ran = std::process::Command::new(binary("harbor"))
            .args([&["keys"], command, &["--keys", &keyring]].concat())
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}");
        came_out += &String::from_utf8(ran.stdout).unwrap();
        came_out += &String::from_utf8(ran.stderr).unwrap();
    }
    ring.write(path).unwrap();
    // Files that are wrong in each place, and what is said of them.
    let right = std::fs::read_to_string(path).unwrap();
    for (from, to) in [
        ("\"k\": \"", "\"k\": \"="),
        ("\"d\": \"", "\"d\": \"AAAA"),
        ("\"use\": \"sig\"", "\"use\": 1"),
        ("\"alg\"", "\"alg"),
    ] {
        std::fs::write(path, right.replace(from, to)).unwrap();
        let ended = std::process::Command::new(binary("harbor"))
            .args(&arguments)
            .env("HARBOR_PERMISSIONS", EVERYTHING_PERMITTED)
            .output()
            .unwrap();
        assert_eq!(ended.status.code(), Some(78), "{from}");
        came_out += &String::from_utf8(ended.stderr).unwrap();
    }
    assert!(came_out.contains("harbor_refusals_total") && came_out.contains("keys.json"));
    let secrets = keys
        .iter()
        .map(Jwk::from)
        .chain(sealing.iter().map(Jwk::from));
    for jwk in secrets {
        for secret in spellings(&jwk) {
            assert!(!came_out.contains(&secret), "{}: {secret}", jwk.kid);
        }
    }
    assert!(!came_out.contains(SEALED), "what was sealed");
}
