//! Goal: the style that clippy cannot see is kept.
//! Method: reads the project's own source files.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn sources() -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') || name == "node_modules" || name == "target" {
                continue; // what the tests installed, and what a bench of its own workspace built
            }
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((path.clone(), fs::read_to_string(path).unwrap()));
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in ["src", "harbor/src", "tests", "benches"] {
        walk(&root.join(folder), &mut found);
    }
    assert!(found.len() > 30);
    found
}

/// The lines of a file before its own tests.
fn lines_without_tests(text: &str) -> usize {
    text.lines()
        .take_while(|line| *line != "#[cfg(test)]")
        .count()
}

#[test]
fn files_say_what_they_are_for_and_stay_small() {
    let mut sizes = Vec::new();
    for (path, text) in sources() {
        assert!(
            text.starts_with("//! "),
            "{}: no header line",
            path.display()
        );
        let lines = lines_without_tests(&text);
        assert!(
            lines <= 500,
            "{}: {lines} lines without tests",
            path.display()
        );
        sizes.push(lines);
    }
    sizes.sort_unstable();
    let median = sizes[sizes.len() / 2];
    assert!(median <= 150, "the median file has {median} lines");
}

#[test]
fn no_reminders_and_no_code_in_comments_are_left() {
    let reminders = [["TO", "DO"], ["FIX", "ME"]].map(|halves| halves.concat());
    for (path, text) in sources() {
        for (at, line) in text.lines().enumerate() {
            let place = format!("{}:{}", path.display(), at + 1);
            for reminder in &reminders {
                assert!(!line.contains(reminder.as_str()), "{place}: {reminder}");
            }
            let comment = line.trim_start().strip_prefix("// ").unwrap_or_default();
            assert!(
                !comment.ends_with(';') && !comment.ends_with('{'),
                "{place}: code in a comment"
            );
        }
    }
}

#[test]
fn every_module_of_the_broker_is_on_its_map() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lib = fs::read_to_string(root.join("harbor/src/lib.rs")).unwrap();
    let map: Vec<&str> = lib
        .lines()
        .filter(|line| line.starts_with("//! |"))
        .collect();
    for line in lib.lines().filter(|line| line.ends_with(';')) {
        let Some(name) = line.trim_start_matches("pub ").strip_prefix("mod ") else {
            continue;
        };
        let name = name.trim_end_matches(';');
        assert!(
            map.iter().any(|row| row.contains(&format!("`{name}`"))),
            "{name} is not on the map"
        );
    }
}
