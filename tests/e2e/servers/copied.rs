// A table of keys and values that a primary copies to one replica, with the standard library of Rust alone: a thread for each client,
// a queue to the thread that copies, a lock and a condition variable.
//   copied PORT [REPLICA]    PUT KEY VALUE -> OK; GET KEY -> the value or -; WAIT N -> OK once N changes are known; STOP
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

#[derive(Default)]
struct Table {
    values: HashMap<String, String>,
    changes: usize,
}

struct Server {
    table: Mutex<Table>,
    changed: Condvar,
    copies: Option<Mutex<Sender<String>>>,
}

impl Server {
    #[inline(never)]
    fn store(&self, key: &str, value: &str) -> usize {
        let mut table = self.table.lock().unwrap();
        table.values.insert(key.to_string(), value.to_string());
        table.changes += 1;
        // Within the lock, so that the replica sees changes in the primary's order.
        if let Some(copies) = &self.copies {
            copies.lock().unwrap().send(format!("PUT {} {}\n", key, value)).unwrap();
        }
        self.changed.notify_all();
        table.changes
    }

    fn answer(&self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["PUT", key, value] => {
                self.store(key, value);
                "OK".to_string()
            }
            ["GET", key] => self.table.lock().unwrap().values.get(key).cloned().unwrap_or_else(|| "-".to_string()),
            ["WAIT", count] => {
                let count: usize = count.parse().unwrap_or(0);
                let table = self.table.lock().unwrap();
                let _known = self.changed.wait_while(table, |table| table.changes < count).unwrap();
                "OK".to_string()
            }
            _ => "ERROR".to_string(),
        }
    }

    fn serve(&self, client: TcpStream) -> std::io::Result<()> {
        let mut answers = client.try_clone()?;
        for line in BufReader::new(client).lines() {
            let line = line?;
            if line == "STOP" {
                std::process::exit(0);
            }
            writeln!(answers, "{}", self.answer(&line))?;
        }
        Ok(())
    }
}

// Sends each change and reads the answer to it.
fn copy_to(replica: String) -> Sender<String> {
    let (sender, queue) = channel::<String>();
    thread::spawn(move || {
        let mut peer = TcpStream::connect(replica).expect("the replica listens");
        let mut answers = BufReader::new(peer.try_clone().unwrap());
        let mut answer = String::new();
        for change in queue {
            if peer.write_all(change.as_bytes()).is_err() || answers.read_line(&mut answer).is_err() {
                return;
            }
        }
    });
    sender
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let listener = TcpListener::bind(("127.0.0.1", arguments[1].parse().unwrap())).unwrap();
    let copies = arguments.get(2).map(|replica| Mutex::new(copy_to(replica.clone())));
    let server = Arc::new(Server { table: Mutex::new(Table::default()), changed: Condvar::new(), copies });
    for client in listener.incoming() {
        let server = server.clone();
        let client = client.unwrap();
        thread::spawn(move || server.serve(client));
    }
}
