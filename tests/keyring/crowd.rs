//! Many at once, and some of them killed: no change is lost, and the file is always whole.

use std::{process::Child, time::Duration};

use serde_json::json;

use super::{Place, keys_of};

const PROCESSES: usize = 8;
const KEYS_EACH: usize = 5;

#[test]
fn many_at_once_lose_nothing() {
    let place = Place::new();
    place.add("first", &[]);
    for round in 0..KEYS_EACH {
        let add = |process: usize| -> Child {
            let (agent, out) = (format!("a{process}"), format!("{process}-{round}.json"));
            let kid = format!("{process}-{round}");
            // Agents add to the same file by hand, too.
            let mut command = if process.is_multiple_of(4) {
                let mut command = place.command("synapse");
                command.args([
                    "--keys",
                    "harbor-data/keys.json",
                    "--agent",
                    &agent,
                    "keygen",
                ]);
                command
            } else {
                let mut command = place.command("harbor");
                command.args(["keys", "add", &agent, "--out", &out]);
                command
            };
            command.args(["--kid", &kid]).spawn().unwrap()
        };
        let children: Vec<Child> = (0..PROCESSES).map(add).collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
    }
    let ring = keys_of(&place.ring());
    assert_eq!(ring.len(), 1 + PROCESSES * KEYS_EACH);
    let entries = std::fs::read_dir(place.path("harbor-data")).unwrap();
    assert_eq!(entries.count(), 1, "nothing is left beside the keyring");
}

/// Each is given less time if the one before was done, and more if it was not: so they are killed
/// around the moment at which the file is written.
#[test]
fn who_is_killed_in_the_middle_leaves_the_file_whole() {
    let place = Place::new();
    let hmac = [
        "add",
        "first",
        "--algorithm",
        "HMAC-SHA256",
        "--out",
        "first.json",
    ];
    place.keys(&hmac).row();
    // Large enough that writing takes its time.
    let mut keys = keys_of(&place.ring());
    for number in 0..300 {
        let mut filler = keys[0].clone();
        filler["kid"] = format!("filler-{number}").into();
        filler["comment"] = "x".repeat(1_000).into();
        keys.push(filler);
    }
    std::fs::write(place.ring(), json!({"keys": keys}).to_string()).unwrap();
    let mut given = Duration::from_millis(20);
    let (mut killed, mut added) = (0, 0);
    for round in 0..60 {
        let (agent, out) = (format!("agent-{round}"), format!("{round}.json"));
        let mut command = place.command("harbor");
        let mut child = command
            .args(["keys", "add", &agent, "--out", &out])
            .spawn()
            .unwrap();
        std::thread::sleep(given);
        child.kill().unwrap();
        let is_done = child.wait().unwrap().success();
        given = if is_done {
            given * 10 / 11
        } else {
            given * 11 / 10
        };
        let now = keys_of(&place.ring());
        let has_it = now.len() == keys.len() + 1;
        assert!(has_it || !is_done, "{agent} was told that its key is there");
        assert_eq!(now[..keys.len()], keys[..], "round {round}");
        killed += usize::from(!is_done);
        added += usize::from(has_it);
        if has_it {
            // Then its secret is where the agent finds it.
            assert_eq!(now[keys.len()]["agent_id"], agent.as_str());
            assert_eq!(place.in_file(&out)[0]["agent_id"], agent.as_str());
        } else {
            let _ = std::fs::remove_file(place.path(&out));
        }
        keys = now;
    }
    println!("{killed} of 60 were killed before they were done, {added} keys are there");
    assert!(killed > 10 && added > 0, "{killed}, {added}");
    place.add("last", &[]);
    let entries = std::fs::read_dir(place.path("harbor-data")).unwrap();
    assert_eq!(entries.count(), 1, "the last one cleaned up");
}
