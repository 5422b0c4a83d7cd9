//! Calls of a channel of the L2 pipe, as its target reads them.

const DATA: u8 = 0;
const ACK: u8 = 1;
const FIN: u8 = 2;
const RESET: u8 = 3;
const PING: u8 = 4;
const WRITE: u8 = 5;
const READ: u8 = 6;
const WAIT: u8 = 7;
const MTU: u8 = 8;
const FINISH: u8 = 9;

/// A frame of the peer.
struct Frame<'a> {
    kind: u8,
    offset: u64,
    acked: u64,
    credit: u64,
    ranges: &'a [(u64, u64)],
    length: u16,
}

const IDLE: Frame<'static> = Frame {
    kind: ACK,
    offset: 0,
    acked: 0,
    credit: 64 << 10,
    ranges: &[],
    length: 0,
};

impl Frame<'_> {
    fn octets(&self) -> Vec<u8> {
        let mut octets = vec![self.kind];
        let mut number = |number: u64| {
            octets.push(0xc0);
            octets.extend(number.to_be_bytes());
        };
        for field in [self.offset, self.acked, self.credit] {
            number(field);
        }
        octets.push(self.ranges.len() as u8);
        for (start, end) in self.ranges {
            for number in [start, end] {
                octets.push(0xc0);
                octets.extend(number.to_be_bytes());
            }
        }
        octets.extend(self.length.to_be_bytes());
        octets
    }
}

fn short(call: u8, number: u16) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    vec![call, high, low]
}

fn data(offset: u64, length: u16) -> Vec<u8> {
    Frame {
        kind: DATA,
        offset,
        length,
        ..IDLE
    }
    .octets()
}

fn ack(acked: u64, credit: u64, ranges: &[(u64, u64)]) -> Vec<u8> {
    Frame {
        acked,
        credit,
        ranges,
        ..IDLE
    }
    .octets()
}

fn of(kind: u8, offset: u64) -> Vec<u8> {
    Frame {
        kind,
        offset,
        ..IDLE
    }
    .octets()
}

/// A whole upload with a loss; a download out of order to its end; no credit; a smaller MTU;
/// silence; a reset.
pub(super) fn calls() -> Vec<Vec<u8>> {
    let wait = |ms: u8| vec![WAIT, ms];
    vec![
        [
            short(WRITE, 14_640),
            ack(0, 64 << 10, &[]),
            vec![FINISH],
            ack(1_464, 64 << 10, &[(1_464, 13_176)]),
            ack(14_641, 0, &[]),
            wait(25),
        ]
        .concat(),
        [
            data(0, 1_000),
            data(2_000, 1_000),
            data(1_000, 1_000),
            of(FIN, 3_000),
            short(READ, 3_000),
            short(READ, 1),
        ]
        .concat(),
        [
            short(WRITE, 2_000),
            ack(0, 0, &[]),
            wait(200),
            of(PING, 1),
            wait(45),
            // The answer to the first question, and credit.
            of(ACK, 1),
            wait(45),
        ]
        .concat(),
        [
            ack(0, 64 << 10, &[]),
            short(WRITE, 20_000),
            short(MTU, 600),
            ack(564, 64 << 10, &[(564, 1_128)]),
            wait(90),
        ]
        .concat(),
        [short(WRITE, 10), wait(45), wait(90), wait(255), wait(255)].concat(),
        [data(0, 10), of(RESET, 0), short(READ, 20)].concat(),
    ]
}
