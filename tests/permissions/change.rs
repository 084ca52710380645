//! What a change of the file means for agents that are connected.

use serde_json::json;

use super::{RULES, Ruled, denied, planner, worker};
use crate::support::{Agent, agent::refusal_of, soon};

#[tokio::test]
async fn a_change_takes_effect_on_open_connections() {
    let ruled = Ruled::by(RULES).await;
    let mut planner = planner(&ruled).await;
    let mut worker = worker(&ruled).await;
    planner
        .control(
            "synapse.group.join",
            json!({"group_id": "crew", "role": "planner"}),
        )
        .await;
    worker
        .control("synapse.presence.watch", json!({"group_id": "crew"}))
        .await;
    let depot = json!({"agent_id": "worker-2", "system_id": "depot"});
    let mut second = Agent::register_as(&ruled.harbor, depot, json!({})).await;
    let task = || json!({"type": "task.new", "receiver": {"agent_id": "worker-1"}});
    assert_eq!(planner.deliver(task()).await, 1);
    assert_eq!(worker.next().await["type"], "task.new");

    // A file that cannot be read changes nothing.
    ruled.change("[[allow]]\nagents = 1");
    // Workers lose the group, one of their systems, and the planner its tasks.
    let narrower = RULES
        .replace("types = [\"task.*\"]", "types = [\"none\"]")
        .replace(
            "join = [\"crew\"]\nroles = [\"worker\"]",
            "doors = [\"/metrics\"]",
        )
        .replace(", \"depot\"", "");
    ruled.change(&narrower);
    assert_eq!(
        worker.next().await["payload"]["change"],
        "left",
        "its watch tells it"
    );
    let told = soon("the worker is told", worker.next()).await;
    assert_eq!(refusal_of(&told), denied("group_id"));
    assert!(
        told["payload"]["reason"]
            .as_str()
            .unwrap()
            .contains("join group \"crew\"")
    );
    let told = soon("and of its watch", worker.next()).await;
    assert!(
        told["payload"]["reason"]
            .as_str()
            .unwrap()
            .contains("see group \"crew\"")
    );
    assert_eq!(second.closed().await, Some(4003));
    assert_eq!(planner.refused(task()).await, denied("receiver.agent_id"));
    let note = json!({"type": "note", "group_id": "crew"});
    assert_eq!(
        planner.deliver(note.clone()).await,
        0,
        "nobody else is left in the group"
    );

    // What comes back is allowed again.
    ruled.change(RULES);
    let join = json!({"type": "synapse.group.join", "payload": {"group_id": "crew"}});
    soon("the worker may join again", async {
        while worker.ask(join.clone()).await["type"] != "synapse.group.join" {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(planner.deliver(note).await, 1);
    drop((planner, worker, second));
    ruled.harbor.is_empty().await;
}
