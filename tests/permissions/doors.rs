//! HTTP doors: who calls says who it is, and needs permission.

use harbor::Settings;
use serde_json::Value;

use crate::support::{
    Raw,
    issuer::{Issuer, Trusting},
};

#[tokio::test]
async fn a_door_is_called_by_permission_of_who_proves_who_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("permissions.toml");
    std::fs::write(
        &path,
        "[[allow]]\nagents = [\"prom*\"]\ndoors = [\"/metrics\"]",
    )
    .unwrap();
    let issuer = Issuer::new("EdDSA");
    let settings = Settings {
        permissions: Some(path),
        ..Settings::default()
    };
    let trusting = Trusting::start(&[&issuer], settings).await;
    let mut peer = Raw::connect(&trusting.harbor).await;
    let get =
        |path: &str, header: &str| format!("GET {path} HTTP/1.1\r\nHost: harbor\r\n{header}\r\n");
    let bearing = |agent_id: &str, seconds| {
        let token = issuer.token(agent_id, seconds);
        format!("Authorization: Bearer {token}\r\n")
    };
    for path in ["/healthz", "/readyz"] {
        assert_eq!(peer.ask(&get(path, "")).await.status, 200, "{path}");
    }
    for (header, status, code) in [
        (String::new(), 401, "bad_token"),
        (bearing("prometheus", -1), 401, "bad_token"),
        (bearing("alice", 60), 403, "not_permitted"),
    ] {
        let answer = peer.ask(&get("/metrics", &header)).await;
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!((answer.status, body["code"].as_str()), (status, Some(code)));
        assert_eq!(body["field"], "Authorization");
        assert!(!answer.body.contains("harbor_"), "{}", answer.body);
    }
    let answer = peer.ask(&get("/metrics", &bearing("prometheus", 60))).await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.ends_with("# EOF\n"));
}
