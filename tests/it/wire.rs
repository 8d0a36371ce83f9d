//! The table of lines, over whatever standard input and output may be: pipes, a socket, files.

use crate::harness::{Backend, DEADLINE, Server, Tree, binary, both_back_ends, finished};
use crate::table::{Connection, HALF, check, probe, rows, shown};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

fn tree() -> Tree {
    Tree::with(&[("a.txt", "alpha\n")])
}

fn command(tree: &Tree) -> Command {
    let mut command = binary();
    command.arg("--root").arg(tree.root()).args(["--include", "**"]).stderr(Stdio::piped());
    command
}

/// The last line of an input that ends without a line feed, and its answer.
fn last_lines() -> [(String, String); 2] {
    [(HALF.0.to_owned(), HALF.1.to_owned()), probe(0)]
}

impl Connection for Server {
    fn send(&mut self, bytes: &[u8]) {
        self.send_bytes(bytes);
    }

    fn next(&mut self) -> String {
        self.next_line()
    }
}

both_back_ends! {
    // CWE-20: a malformed message ends the connection, or its caller waits forever.
    fn every_line_has_its_answer_over_pipes(backend) {
        let tree = tree();
        let mut server = tree.serve(backend);
        check(&mut server);
        let finished = server.end();
        assert_eq!(finished.status.code(), Some(0));
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("", ""));
        assert_eq!(tree.names(), ["a.txt"]);
    }
}

// CWE-755: input that ends within a message leaves it without an answer.
#[test]
fn the_end_of_a_pipe_ends_the_last_line() {
    let tree = tree();
    for (line, answer) in last_lines() {
        let mut server = tree.serve(Backend::Openat2);
        server.send_bytes(line.as_bytes());
        let finished = server.end();
        assert_eq!(finished.status.code(), Some(0));
        assert_eq!((finished.stdout, finished.stderr.as_str()), (answer, ""));
    }
}

/// A socket that is both standard input and standard output.
struct Socket {
    write: UnixStream,
    read: BufReader<UnixStream>,
}

impl Connection for Socket {
    fn send(&mut self, bytes: &[u8]) {
        self.write.write_all(bytes).unwrap();
    }

    fn next(&mut self) -> String {
        let mut line = String::new();
        self.read.read_line(&mut line).unwrap();
        line.strip_suffix('\n').expect("the line is whole").to_owned()
    }
}

/// Talks to a server over a socket, and gives what it still says once the input has ended.
fn over_a_socket(tree: &Tree, talk: impl FnOnce(&mut Socket)) -> String {
    let (ours, theirs) = UnixStream::pair().unwrap();
    // Against a hang; the server waits for no time.
    ours.set_read_timeout(Some(DEADLINE)).unwrap();
    ours.set_write_timeout(Some(DEADLINE)).unwrap();
    let (input, output) = (OwnedFd::from(theirs.try_clone().unwrap()), OwnedFd::from(theirs));
    let child = command(tree).stdin(input).stdout(output).spawn().unwrap();
    let mut socket = Socket { read: BufReader::new(ours.try_clone().unwrap()), write: ours };
    talk(&mut socket);
    socket.write.shutdown(Shutdown::Write).unwrap();
    let mut rest = String::new();
    socket.read.read_to_string(&mut rest).unwrap();
    let finished = finished(child);
    assert_eq!((finished.status.code(), finished.stderr.as_str()), (Some(0), ""));
    rest
}

// CWE-20: a malformed message ends the connection, or its caller waits forever.
#[test]
fn every_line_has_its_answer_over_a_socket() {
    let tree = tree();
    assert_eq!(over_a_socket(&tree, check), "");
    assert_eq!(tree.names(), ["a.txt"]);
}

// CWE-755: input that ends within a message leaves it without an answer.
#[test]
fn the_end_of_a_socket_ends_the_last_line() {
    let tree = tree();
    for (line, answer) in last_lines() {
        assert_eq!(over_a_socket(&tree, |socket| socket.send(line.as_bytes())), answer + "\n");
    }
}

/// What a server whose input is a file writes into another.
fn over_files(tree: &Tree, input: &[u8]) -> String {
    let (requests, answers) = (tree.above().join("requests"), tree.above().join("answers"));
    std::fs::write(&requests, input).unwrap();
    let (input, output) = (File::open(&requests).unwrap(), File::create(&answers).unwrap());
    let finished = finished(command(tree).stdin(input).stdout(output).spawn().unwrap());
    assert_eq!((finished.status.code(), finished.stderr.as_str()), (Some(0), ""));
    std::fs::read_to_string(answers).unwrap()
}

// CWE-20: a malformed message ends the connection, or its caller waits forever.
#[test]
fn every_line_has_its_answer_over_files() {
    let tree = tree();
    let rows = rows();
    assert!(rows.len() > 250, "the table is read");
    let (mut input, mut expected) = (Vec::new(), Vec::new());
    for (number, row) in rows.into_iter().enumerate() {
        let (request, alive) = probe(number);
        input.extend_from_slice(&row.line);
        input.extend_from_slice(format!("\n{request}\n").as_bytes());
        expected.extend(row.answer.into_iter().chain([alive]));
    }
    let output = over_files(&tree, &input);
    assert!(output.ends_with('\n'), "the last line is whole");
    // Calls overtake each other.
    let mut answers: Vec<String> = output.lines().map(shown).collect();
    expected.sort();
    answers.sort();
    for (answer, expected) in answers.iter().zip(&expected) {
        assert_eq!(answer, expected);
    }
    assert_eq!(answers.len(), expected.len());
    assert_eq!(tree.names(), ["a.txt"]);
}

// CWE-755: input that ends within a message leaves it without an answer.
#[test]
fn the_end_of_a_file_ends_the_last_line() {
    let tree = tree();
    for (line, answer) in last_lines() {
        assert_eq!(over_files(&tree, line.as_bytes()), answer + "\n");
    }
}
