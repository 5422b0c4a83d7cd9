//! Order of the requests of a page. Pure: the time since the page's start is an argument.

use std::time::Duration;

/// One object of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageObject {
    /// Size in bytes.
    pub bytes: u64,
    /// Number of its host, from 0. One origin serves all of them; each has connections of its own.
    pub host: usize,
    /// Earliest time of its request.
    pub begins: Begins,
}

/// Earliest time of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begins {
    /// This long after the start of the page.
    At(Duration),
    /// After the arrival of another object.
    After {
        /// Number of the other object, from 0.
        object: usize,
        /// Delay after its arrival, for processing in a browser.
        delay: Duration,
    },
}

/// Next action of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Fetch an object.
    Fetch {
        /// Number of the object.
        object: usize,
        /// Its size.
        bytes: u64,
    },
    /// Wait until this time if it is known, otherwise for the arrival of another object.
    Wait(Option<Duration>),
    /// No object of this host is left.
    Done,
}

/// State of a page: requested and finished objects.
#[derive(Debug)]
pub struct Order {
    objects: Vec<PageObject>,
    asked: Vec<bool>,
    finished: Vec<Option<Duration>>,
}

impl Order {
    /// The state before any request.
    pub fn new(objects: Vec<PageObject>) -> Self {
        Self {
            asked: vec![false; objects.len()],
            finished: vec![None; objects.len()],
            objects,
        }
    }

    /// Number of objects of each host.
    pub fn objects_by_host(&self) -> Vec<usize> {
        let hosts = self.objects.iter().map(|o| o.host + 1).max();
        let mut count = vec![0; hosts.unwrap_or(0)];
        for object in &self.objects {
            if let Some(count) = count.get_mut(object.host) {
                *count += 1;
            }
        }
        count
    }

    /// The object of `host` with the earliest time of request, which counts as requested from now
    /// on.
    pub fn next(&mut self, host: usize, now: Duration) -> Next {
        let waiting = |(i, o): &(usize, &PageObject)| o.host == host && !self.asked[*i];
        let waiting: Vec<_> = self.objects.iter().enumerate().filter(waiting).collect();
        if waiting.is_empty() {
            return Next::Done;
        }
        let known = waiting
            .iter()
            .filter_map(|(i, o)| Some((self.begin(o)?, *i, o.bytes)));
        match known.min() {
            Some((begin, object, bytes)) if begin <= now => {
                self.asked[object] = true;
                Next::Fetch { object, bytes }
            }
            later => Next::Wait(later.map(|(begin, ..)| begin)),
        }
    }

    /// Whether every object has arrived.
    pub fn is_loaded(&self) -> bool {
        self.finished.iter().all(Option::is_some)
    }

    /// Marks `object` as arrived.
    pub fn finished(&mut self, object: usize, now: Duration) {
        if let Some(finished) = self.finished.get_mut(object) {
            *finished = Some(now);
        }
    }

    /// Earliest time of an object's request; `None` while unknown.
    fn begin(&self, object: &PageObject) -> Option<Duration> {
        match object.begins {
            Begins::At(at) => Some(at),
            Begins::After { object, delay } => Some((*self.finished.get(object)?)? + delay),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn object(bytes: u64, host: usize, begins: Begins) -> PageObject {
        PageObject {
            bytes,
            host,
            begins,
        }
    }

    #[test]
    fn objects_wait_for_others_and_for_their_time() {
        let after = |object, ms| Begins::After {
            object,
            delay: MS(ms),
        };
        let mut order = Order::new(vec![
            object(10, 0, Begins::At(MS(0))),
            object(11, 0, after(0, 30)),
            object(12, 1, after(1, 0)),
            object(13, 0, Begins::At(MS(500))),
            object(14, 0, after(0, 0)),
        ]);
        assert_eq!(order.objects_by_host(), [4, 1]);
        let fetch = |object: usize| Next::Fetch {
            object,
            bytes: 10 + object as u64,
        };
        assert_eq!(order.next(0, MS(0)), fetch(0));
        // A second connection can only wait for the object at 500 ms.
        assert_eq!(order.next(0, MS(1)), Next::Wait(Some(MS(500))));
        assert_eq!(order.next(1, MS(1)), Next::Wait(None));
        order.finished(0, MS(100));
        assert_eq!(order.next(0, MS(100)), fetch(4));
        assert_eq!(order.next(0, MS(100)), Next::Wait(Some(MS(130))));
        assert_eq!(order.next(0, MS(140)), fetch(1));
        order.finished(1, MS(200));
        assert_eq!(order.next(1, MS(200)), fetch(2));
        assert_eq!(order.next(1, MS(200)), Next::Done);
        assert_eq!(order.next(0, MS(700)), fetch(3));
        assert_eq!(order.next(0, MS(700)), Next::Done);
        for object in [4, 2, 3] {
            assert!(!order.is_loaded());
            order.finished(object, MS(800));
        }
        assert!(order.is_loaded());
    }
}
