//! Goal: under churn, every agent gets exactly the messages that are for it, once, in order per
//! sender; and nothing is left behind.
//! Method: 1,000 agents in 50 groups and 20 rounds. In each round most agents send, 5,000 messages
//! in all, to agents, groups, roles and members, while others join, leave, change roles, drop their
//! connection without a word, or are taken over. A naive model says who must and who may get each
//! message; for a membership that no one touched the two are equal. `recipients` in the acceptance
//! must be the number of copies that were seen, unless a connection of one of them was dropped.

mod crowd;
mod model;

use std::collections::BTreeSet;

use futures_util::future::join_all;

use crate::support::Harbor;
use crowd::Peer;
use model::{Message, Model, Part};

const AGENTS: usize = 1_000;
const GROUPS: usize = 50;
const ROUNDS: usize = 20;
const MESSAGES: usize = 100_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_sets_under_churn() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut chance = fastrand::Rng::with_seed(seed);
    let harbor = Harbor::start().await;
    let mut model = Model::new(AGENTS, GROUPS, &mut chance);
    let starting = (0..AGENTS).map(|at| Peer::start(&harbor, at, model.groups_of(at)));
    let mut peers: Vec<Peer> = join_all(starting).await;
    let (mut sent, mut copies) = (0, 0);
    for round in 0..ROUNDS {
        let plan = model.plan(MESSAGES / ROUNDS, &mut chance);
        let messages: Vec<Message> = plan.iter().flat_map(Part::messages).cloned().collect();
        let playing = peers
            .iter_mut()
            .zip(&plan)
            .map(|(peer, part)| peer.play(&harbor, part));
        let accepted: Vec<u64> = join_all(playing).await.into_iter().flatten().collect();
        let received = join_all(peers.iter_mut().map(Peer::finish_round)).await;
        copies += check(&model, &plan, &messages, &accepted, &received);
        sent += messages.len();
        model.settle(&plan);
        assert!(copies > 0, "round {round}");
    }
    assert_eq!(sent, MESSAGES);
    println!("{sent} messages, {copies} copies");
    join_all(peers.into_iter().map(Peer::leave)).await;
    harbor.is_empty().await;
    assert_eq!(
        harbor.metric("harbor_messages_accepted_total"),
        harbor_count(sent, ROUNDS)
    );
}

/// Each agent also sends itself one message a round, as a mark.
fn harbor_count(sent: usize, rounds: usize) -> f64 {
    (sent + rounds * AGENTS) as f64
}

/// Compares what came with what the model says; the number of copies.
fn check(
    model: &Model,
    plan: &[Part],
    messages: &[Message],
    accepted: &[u64],
    received: &[Vec<usize>],
) -> u64 {
    let mut got: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); messages.len()];
    let first = messages.first().map_or(0, |message| message.number);
    for (agent, numbers) in received.iter().enumerate() {
        let mut latest_of = vec![None; AGENTS];
        for number in numbers {
            let message = &messages[number - first];
            assert!(
                got[number - first].insert(agent),
                "agent {agent} got {message:?} twice"
            );
            let latest = latest_of[message.sender].replace(*number);
            assert!(
                latest < Some(*number),
                "agent {agent} got {message:?} after {latest:?}"
            );
        }
    }
    let mut copies = 0;
    for ((message, got), accepted) in messages.iter().zip(&got).zip(accepted) {
        let (must, may) = model.recipients(message, plan);
        assert!(
            must.is_subset(got),
            "{message:?} misses {:?}",
            must.difference(got)
        );
        assert!(
            got.is_subset(&may),
            "{message:?} also went to {:?}",
            got.difference(&may)
        );
        let seen = got.len() as u64;
        let some_dropped = may.iter().any(|agent| plan[*agent].drops());
        let explains = if some_dropped {
            *accepted >= seen
        } else {
            *accepted == seen
        };
        assert!(
            explains,
            "{message:?}: {accepted} recipients were told, {seen} got it"
        );
        copies += seen;
    }
    copies
}
