//! Goal: the cipher is the standard's, and only the header we write is taken.
//! Method: a test case of the GCM specification; headers sealed rightly that say something else.

use super::*;

fn header() -> Header<'static> {
    Header {
        alg: "dir".into(),
        enc: "A256GCM".into(),
        kid: "k".into(),
        iss: "alice".into(),
        aud: "bob".into(),
        jti: "m".into(),
    }
}

/// Test case 14 of the GCM specification (McGrew and Viega): all zero, without associated data.
#[test]
fn the_cipher_is_aes_256_gcm() {
    let sealed = cipher(&[0; 32])
        .encrypt(&Nonce::from([0; IV_BYTES]), [0; 16].as_slice())
        .unwrap();
    let hex: String = sealed.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"
    );
}

#[test]
fn a_header_is_taken_only_as_we_write_it() {
    let spelled = serde_json::to_value(header()).unwrap();
    let read = |header: &serde_json::Value| {
        let flattened = Flattened {
            protected: URL_SAFE_NO_PAD.encode(header.to_string()),
            encrypted_key: String::new(),
            iv: URL_SAFE_NO_PAD.encode([0; IV_BYTES]),
            ciphertext: String::new(),
            tag: URL_SAFE_NO_PAD.encode([0; TAG_BYTES]),
        };
        Sealed::read(&serde_json::to_string(&flattened).unwrap())
    };
    assert_eq!(read(&spelled).unwrap().header, self::header());
    for (name, value) in [
        ("crit", serde_json::json!(["exp"])),
        ("crit", serde_json::json!([])),
        ("zip", "DEF".into()),
        ("typ", "JWE".into()),
    ] {
        let mut more = spelled.clone();
        more[name] = value;
        assert!(read(&more).is_none(), "{name}");
    }
    for (name, value) in [
        ("alg", "A256KW"),
        ("alg", "DIR"),
        ("enc", "A128GCM"),
        ("enc", "A256CBC-HS512"),
        ("iss", "eve"),
    ] {
        let mut other = spelled.clone();
        other[name] = value.into();
        assert_ne!(read(&other).unwrap().header, self::header(), "{name}");
    }
    for name in ["alg", "enc", "kid", "iss", "aud", "jti"] {
        let mut less = spelled.clone();
        less.as_object_mut().unwrap().remove(name);
        assert!(read(&less).is_none(), "{name}");
    }
    let twice =
        r#"{"alg":"dir","enc":"A256GCM","kid":"k","iss":"a","aud":"b","jti":"m","kid":"x"}"#;
    assert!(object::<Header<'static>>(twice).is_none());
}

#[test]
fn what_was_sealed_under_one_header_does_not_open_under_another() {
    let sealed = seal_under([1; IV_BYTES], &header(), b"text", &[2; 32]).unwrap();
    let mut sealed = Sealed::read(sealed.get()).unwrap();
    assert_eq!(sealed.open(&[2; 32]).unwrap().as_slice(), b"text");
    assert!(sealed.open(&[3; 32]).is_none());
    sealed.protected.push('A');
    assert!(sealed.open(&[2; 32]).is_none());
}

/// RFC 7516 appendix A.1, whose `enc` is ours though its `alg` is not.
#[test]
fn the_content_that_rfc_7516_prints_opens() {
    let published = include_str!("../../../tests/vectors/published.json");
    let published: serde_json::Value = serde_json::from_str(published).unwrap();
    let case = &published["a256gcm"][0];
    let text = |member: &str| case[member].as_str().unwrap();
    let bytes = |member: &str| URL_SAFE_NO_PAD.decode(text(member)).unwrap();
    let sealed = Sealed {
        header: header(),
        protected: text("protected").to_owned(),
        iv: bytes("iv").try_into().unwrap(),
        ciphertext: [bytes("ciphertext"), bytes("tag")].concat(),
    };
    let secret = bytes("key").try_into().unwrap();
    assert_eq!(*sealed.open(&secret).unwrap(), text("plaintext").as_bytes());
}
