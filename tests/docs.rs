//! Goal: what the documents say is what the code does.
//! Method: their tables are compared with the code's, and their commands and examples are run.

use std::{fs, path::Path};

use serde_json::json;
use synapse::{
    Code,
    refusal::{Close, Retry},
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

use crate::support::{Agent, Harbor, python, soon};

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The cells of the rows of the table under a heading.
fn table(document: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, section) = document.split_once(&format!("\n## {heading}\n")).unwrap();
    section
        .lines()
        .take_while(|line| !line.starts_with("## "))
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .map(|row| {
            row.split(" | ")
                .map(|cell| cell.trim_matches('`').to_owned())
                .collect()
        })
        .collect()
}

#[test]
fn the_refusal_table_of_the_protocol_is_that_of_the_code() {
    let rows = table(&read("docs/PROTOCOL.md"), "Refusal codes");
    assert_eq!(rows.len(), 1 + Code::ALL.len(), "a heading and every code");
    for (code, row) in Code::ALL.iter().zip(&rows[1..]) {
        let expected = code.row();
        let retry = match expected.retry {
            Retry::AfterChange => "change",
            Retry::Later => "later",
        };
        let expected = [expected.wire, &expected.http_status.to_string(), retry];
        assert_eq!(row[..3], expected, "{code}");
    }
}

#[test]
fn the_close_codes_of_the_protocol_are_those_of_the_code() {
    let rows = table(&read("docs/PROTOCOL.md"), "Close codes");
    let told: Vec<&str> = rows[1..].iter().map(|row| row[0].as_str()).collect();
    let mut codes: Vec<u16> = Close::ALL
        .iter()
        .filter(|close| **close != Close::Lost)
        .map(|close| close.code())
        .collect();
    codes.sort_unstable();
    assert_eq!(
        told,
        codes.iter().map(ToString::to_string).collect::<Vec<_>>()
    );
    for close in Close::ALL.iter().filter(|close| **close != Close::Lost) {
        let row = rows
            .iter()
            .find(|row| row[0] == close.code().to_string())
            .unwrap();
        let forbids = row
            .get(2)
            .is_some_and(|advice| advice.starts_with("**no**"));
        assert_eq!(Close::allows_reconnect(close.code()), !forbids, "{row:?}");
    }
}

#[tokio::test]
async fn every_metric_is_described_and_every_one_described_is_there() {
    let harbor = Harbor::start().await;
    let described: Vec<String> = table(&read("docs/OPERATING.md"), "What to watch")[1..]
        .iter()
        .flat_map(|row| row[0].split(", ").map(str::to_owned).collect::<Vec<_>>())
        .map(|name| {
            name.trim_matches('`')
                .split('{')
                .next()
                .unwrap()
                .trim_end_matches("_total")
                .to_owned()
        })
        .collect();
    let text = harbor.metrics();
    let mut there: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE harbor_")?.split(' ').next())
        .collect();
    let mut described: Vec<&str> = described.iter().map(String::as_str).collect();
    there.sort_unstable();
    described.sort_unstable();
    assert_eq!(there, described);
}

#[test]
fn the_settings_that_are_described_are_those_of_the_default_file() {
    let default = harbor::config::DEFAULT_FILE;
    let in_file = default
        .lines()
        .filter_map(|line| line.strip_prefix('#')?.split_once(" = "));
    let rows = table(&read("docs/OPERATING.md"), "Settings");
    let described: Vec<&str> = rows[1..]
        .iter()
        .flat_map(|row| row[0].split(", "))
        .map(|key| key.trim_matches('`'))
        .collect();
    assert_eq!(described, in_file.map(|(key, _)| key).collect::<Vec<_>>());
}

#[test]
fn each_promise_of_the_threat_model_names_tests_that_are_there() {
    let rows = table(&read("docs/OPERATING.md"), "Threat model");
    assert!(rows.len() > 10, "{rows:?}");
    let themes = rows[1..]
        .iter()
        .filter_map(|row| row.last())
        .flat_map(|cell| cell.split(", "));
    for theme in themes.map(|theme| theme.trim_matches('`')) {
        let file = format!("tests/{}.rs", theme.replace("::", "/"));
        let text = read(&file);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(file.trim_end_matches(".rs"));
        assert!(
            text.contains("test]\n") || text.contains("::test(") || folder.is_dir(),
            "{theme}"
        );
    }
}

#[tokio::test]
async fn the_python_of_the_readme_is_the_example_and_talks_to_a_group() {
    let example = read("examples/agent.py");
    assert!(read("README.md").contains(&format!("```python\n{}\n```", example.trim_end())));
    let code = example
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert!(code.count() <= 17, "15 lines, and the imports");
    let harbor = Harbor::start().await;
    let mut dave = Agent::in_groups(&harbor, "dave", &[("crew", &["worker"])]).await;
    let mut carol = Command::new(python())
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/agent.py"))
        .arg(harbor.url())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let greeting = dave.next().await;
    assert_eq!(greeting["payload"], json!({"text": "hello, crew"}));
    dave.deliver(json!({"group_id": "crew", "target_type": "role", "target_ids": ["worker"]}))
        .await;
    let mut lines = BufReader::new(carol.stdout.take().unwrap()).lines();
    let mut said = String::new();
    while !said.starts_with("chat from dave") {
        said = soon("carol prints it", lines.next_line())
            .await
            .unwrap()
            .unwrap();
    }
}
