//! Tests of pairing without a network: both ends, and attackers between them.

use std::net::SocketAddr;
use std::time::Duration;

use mpbond_units::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::identity::DeviceId;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn after(seconds: u64) -> Timestamp {
    NOW + Duration::from_secs(seconds)
}

fn id(n: u8) -> DeviceId {
    DeviceId::from_bytes([n; 32])
}

fn code(text: &str) -> PairingCode {
    text.parse().unwrap()
}

/// Binding to a session between the devices `own` and `peer`; equal numbers mean the same session.
fn bounds(own: u8, peer: u8, session: u8) -> ChannelBinding {
    ChannelBinding {
        own: id(own),
        peer: id(peer),
        exporter: [session; 32],
    }
}

fn primary() -> Introduction {
    Introduction {
        role: Role::Primary,
        name: "my laptop".to_owned(),
        service: None,
    }
}

fn helper() -> Introduction {
    Introduction {
        role: Role::Helper,
        name: "my phone".to_owned(),
        service: Some("0.0.0.0:4434".parse().unwrap()),
    }
}

fn caller(code_: &str, bounds: ChannelBinding) -> (Exchange, Vec<Step>) {
    Exchange::new(End::Caller, &code(code_), bounds, primary(), NOW)
}

fn listener(code_: &str, bounds: ChannelBinding) -> Exchange {
    let (exchange, steps) = Exchange::new(End::Listener, &code(code_), bounds, helper(), NOW);
    assert_eq!(steps, [], "a listener waits");
    exchange
}

/// The records among the steps.
fn sent(steps: &[Step]) -> Vec<Vec<u8>> {
    let records = steps.iter().filter_map(|s| match s {
        Step::Send(octets) => Some(octets.clone()),
        _ => None,
    });
    records.collect()
}

fn failure(steps: &[Step]) -> Option<&PairingError> {
    steps.iter().find_map(|s| match s {
        Step::Failed(e) => Some(e),
        _ => None,
    })
}

/// One end with the actions that it has returned.
struct Party {
    exchange: Exchange,
    attempts: Attempts,
    inbox: Vec<Vec<u8>>,
    /// Actions not yet done.
    steps: Vec<Step>,
    did: Vec<Step>,
    says_yes: bool,
    can_store: bool,
}

impl Party {
    fn new((exchange, steps): (Exchange, Vec<Step>)) -> Self {
        Self {
            exchange,
            attempts: Attempts::default(),
            inbox: Vec::new(),
            steps,
            did: Vec::new(),
            says_yes: true,
            can_store: true,
        }
    }

    /// Handles received records and performs the actions. Returns the records for the other end.
    fn turn(&mut self) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let mut steps = std::mem::take(&mut self.steps);
        for record in std::mem::take(&mut self.inbox) {
            steps.extend(self.exchange.receive(&record, &mut self.attempts, NOW));
        }
        let mut at = 0;
        while let Some(step) = steps.get(at).cloned() {
            let more = match step {
                Step::Send(record) => {
                    out.push(record);
                    Vec::new()
                }
                Step::Ask(_) => self.exchange.decide(self.says_yes, NOW),
                Step::Store(_) => {
                    let result = self.can_store.then_some(()).ok_or("disk full".to_owned());
                    self.exchange.stored(result, NOW)
                }
                Step::Undo | Step::Done(_) | Step::Failed(_) => Vec::new(),
            };
            steps.extend(more);
            at += 1;
        }
        self.did.extend(steps);
        out
    }
}

/// Runs both ends until no records are left. Returns the actions of each.
fn talk(a: &mut Party, b: &mut Party) -> (Vec<Step>, Vec<Step>) {
    loop {
        b.inbox = a.turn();
        a.inbox = b.turn();
        if a.inbox.is_empty() {
            return (std::mem::take(&mut a.did), std::mem::take(&mut b.did));
        }
    }
}

fn honest(caller_code: &str, listener_code: &str) -> (Party, Party) {
    let a = Party::new(caller(caller_code, bounds(1, 2, 7)));
    let b = Party::new((listener(listener_code, bounds(2, 1, 7)), Vec::new()));
    (a, b)
}

fn stores(steps: &[Step]) -> usize {
    steps.iter().filter(|s| matches!(s, Step::Store(_))).count()
}

#[test]
fn with_the_right_code_both_are_introduced_and_store() {
    let (mut a, mut b) = honest("1234-5678", "12345678");
    let (a_did, b_did) = talk(&mut a, &mut b);
    let phone = Peer {
        id: id(2),
        introduction: helper(),
    };
    let laptop = Peer {
        id: id(1),
        introduction: primary(),
    };
    for (did, peer) in [(&a_did, phone), (&b_did, laptop)] {
        for step in [
            Step::Ask(peer.clone()),
            Step::Store(peer.clone()),
            Step::Done(peer),
        ] {
            assert!(did.contains(&step), "{step:?} is missing in {did:#?}");
        }
        assert_eq!(failure(did), None);
    }
    assert!(a.exchange.is_over() && b.exchange.is_over());
    assert!(
        b.attempts.is_used() && b.attempts.is_void(),
        "a code is good for once"
    );
}

#[test]
fn with_a_wrong_code_there_is_neither_introduction_nor_question() {
    let (mut a, mut b) = honest("1234-5679", "1234-5678");
    let (a_did, b_did) = talk(&mut a, &mut b);
    assert_eq!(failure(&b_did), Some(&PairingError::WrongCode));
    let told = PairingError::Stopped(StopReason::WrongCode);
    assert_eq!(failure(&a_did), Some(&told));
    for did in [&a_did, &b_did] {
        assert!(
            !did.iter()
                .any(|s| matches!(s, Step::Ask(_) | Step::Store(_)))
        );
        for record in sent(did) {
            let message = Message::decode(&record).unwrap();
            assert!(!matches!(message, Message::Introduction(_)), "{message:?}");
        }
    }
    // The listener must not send its proof, which would allow an offline search.
    let proofs = sent(&b_did)
        .into_iter()
        .map(|r| Message::decode(&r).unwrap());
    assert_eq!(proofs.filter(|m| matches!(m, Message::Proof(_))).count(), 0);
}

#[test]
fn a_code_is_void_after_three_wrong_ones_even_for_the_right_one() {
    let mut attempts = Attempts::default();
    let mut try_code = |text: &str, at: Timestamp| {
        let (mut a, start) = caller(text, bounds(1, 2, 7));
        let mut b = listener("1234-5678", bounds(2, 1, 7));
        let answer = b.receive(&sent(&start)[0], &mut attempts, NOW);
        let proof = a.receive(&sent(&answer)[0], &mut Attempts::default(), NOW);
        // All of these exchanges begin at the same instant and end one after the other.
        let steps = b.receive(&sent(&proof)[0], &mut attempts, at);
        failure(&steps).cloned()
    };
    assert_eq!(try_code("0000-0000", NOW), Some(PairingError::WrongCode));
    let at_once = Some(PairingError::TooSoon);
    assert_eq!(try_code("0000-0001", NOW), at_once, "limited in rate");
    assert_eq!(
        try_code("1234-5678", after(1)),
        at_once,
        "also for the right one"
    );
    assert_eq!(
        try_code("0000-0001", after(3)),
        Some(PairingError::WrongCode)
    );
    assert_eq!(
        try_code("0000-0002", after(6)),
        Some(PairingError::WrongCode)
    );
    assert_eq!(try_code("1234-5678", after(9)), Some(PairingError::Void));
}

#[test]
fn a_used_code_is_void_for_all_other_callers() {
    let mut attempts = Attempts::default();
    let mut begun = [1, 3].map(|device| {
        let (mut a, start) = caller("1234-5678", bounds(device, 2, device));
        let mut b = listener("1234-5678", bounds(2, device, device));
        let answer = b.receive(&sent(&start)[0], &mut attempts, NOW);
        let proof = a.receive(&sent(&answer)[0], &mut Attempts::default(), NOW);
        (b, sent(&proof)[0].clone())
    });
    let ends = begun
        .each_mut()
        .map(|(b, proof)| failure(&b.receive(proof, &mut attempts, NOW)).cloned());
    assert_eq!(ends, [None, Some(PairingError::Void)]);
}

/// The caller's messages are replayed: in a session of the attacker's own, and even in one with the
/// same keys and the same exporter, which TLS excludes.
#[test]
fn replayed_messages_prove_nothing() {
    let (mut a, start) = caller("1234-5678", bounds(1, 2, 7));
    let mut b = listener("1234-5678", bounds(2, 1, 7));
    let answer = b.receive(&sent(&start)[0], &mut Attempts::default(), NOW);
    let proof = a.receive(&sent(&answer)[0], &mut Attempts::default(), NOW);
    let accepted = b.receive(&sent(&proof)[0], &mut Attempts::default(), NOW);
    assert_eq!(failure(&accepted), None, "the original is good");
    for (device, session) in [(3, 8), (1, 7)] {
        let mut again = listener("1234-5678", bounds(2, device, session));
        again.receive(&sent(&start)[0], &mut Attempts::default(), NOW);
        let steps = again.receive(&sent(&proof)[0], &mut Attempts::default(), NOW);
        assert_eq!(failure(&steps), Some(&PairingError::WrongCode));
    }
}

#[test]
fn a_message_sent_back_to_its_sender_is_refused() {
    let (mut a, start) = caller("1234-5678", bounds(1, 2, 7));
    let steps = a.receive(&sent(&start)[0], &mut Attempts::default(), NOW);
    assert!(
        matches!(failure(&steps), Some(PairingError::Message(_))),
        "{steps:?}"
    );

    let (mut a, start) = caller("1234-5678", bounds(1, 2, 7));
    let mut b = listener("1234-5678", bounds(2, 1, 7));
    let answer = b.receive(&sent(&start)[0], &mut Attempts::default(), NOW);
    let proof = a.receive(&sent(&answer)[0], &mut Attempts::default(), NOW);
    let steps = a.receive(&sent(&proof)[0], &mut Attempts::default(), NOW);
    assert_eq!(failure(&steps), Some(&PairingError::Impostor));
}

/// Both ends have the right code, and their channel bindings differ.
#[test]
fn swapped_identities_do_not_fit() {
    for (of_caller, of_listener) in [
        // An attacker presents his own certificate to one of them.
        (bounds(1, 3, 7), bounds(2, 1, 7)),
        (bounds(1, 2, 7), bounds(2, 3, 7)),
        // Each takes the other device for itself.
        (bounds(1, 2, 7), bounds(1, 2, 7)),
        // Another session of the same devices.
        (bounds(1, 2, 7), bounds(2, 1, 8)),
    ] {
        let mut a = Party::new(caller("1234-5678", of_caller));
        let mut b = Party::new((listener("1234-5678", of_listener), Vec::new()));
        let (a_did, b_did) = talk(&mut a, &mut b);
        assert_eq!(failure(&b_did), Some(&PairingError::WrongCode));
        assert_eq!(stores(&a_did) + stores(&b_did), 0);
    }
}

/// A man in the middle has a session with each device, under a key of his own, and forwards all
/// messages. Then he plays the listener with a guessed code.
#[test]
fn a_man_in_the_middle_has_one_guess() {
    let mut a = Party::new(caller("1234-5678", bounds(1, 9, 7)));
    let mut b = Party::new((listener("1234-5678", bounds(2, 9, 8)), Vec::new()));
    let (a_did, b_did) = talk(&mut a, &mut b);
    assert_eq!(failure(&b_did), Some(&PairingError::WrongCode));
    assert_eq!(stores(&a_did) + stores(&b_did), 0);

    for (guess, right) in [("0000-0000", false), ("1234-5678", true)] {
        let mut a = Party::new(caller("1234-5678", bounds(1, 9, 7)));
        let mut thief = Party::new((listener(guess, bounds(9, 1, 7)), Vec::new()));
        let (a_did, _) = talk(&mut a, &mut thief);
        // The test can fail: with the right code the attacker is accepted.
        assert_eq!(stores(&a_did), usize::from(right), "{guess}: {a_did:#?}");
    }

    // He answers without knowing whether his guess is right: the caller refuses his proof.
    let (mut a, start) = caller("1234-5678", bounds(1, 9, 7));
    let mut thief = listener("0000-0000", bounds(9, 1, 7));
    let answer = thief.receive(&sent(&start)[0], &mut Attempts::default(), NOW);
    a.receive(&sent(&answer)[0], &mut Attempts::default(), NOW);
    let made_up = Message::Proof([0; 32]).encode();
    let steps = a.receive(&made_up, &mut Attempts::default(), NOW);
    assert_eq!(failure(&steps), Some(&PairingError::Impostor));
}

#[test]
fn either_person_may_decline_and_then_nothing_is_stored() {
    for caller_declines in [true, false] {
        let (mut a, mut b) = honest("1234-5678", "1234-5678");
        a.says_yes = !caller_declines;
        b.says_yes = caller_declines;
        let (a_did, b_did) = talk(&mut a, &mut b);
        assert_eq!(stores(&a_did) + stores(&b_did), 0);
        let (who, other) = if caller_declines {
            (a_did, b_did)
        } else {
            (b_did, a_did)
        };
        assert_eq!(failure(&who), Some(&PairingError::Declined));
        let told = PairingError::Stopped(StopReason::Declined);
        assert_eq!(failure(&other), Some(&told));
    }
}

#[test]
fn when_the_caller_cannot_store_the_listener_undoes_it() {
    let (mut a, mut b) = honest("1234-5678", "1234-5678");
    a.can_store = false;
    let (a_did, b_did) = talk(&mut a, &mut b);
    assert_eq!(
        failure(&a_did),
        Some(&PairingError::NotStored("disk full".into()))
    );
    assert!(b_did.contains(&Step::Undo), "{b_did:#?}");
    assert_eq!(
        failure(&b_did),
        Some(&PairingError::Stopped(StopReason::NotStored))
    );

    let (mut a, mut b) = honest("1234-5678", "1234-5678");
    b.can_store = false;
    let (a_did, b_did) = talk(&mut a, &mut b);
    assert_eq!((stores(&a_did), b_did.contains(&Step::Undo)), (0, false));
}

/// A listener in the state after storing.
fn listener_has_stored() -> Exchange {
    let mut none = Attempts::default();
    let (mut a, start) = caller("1234-5678", bounds(1, 2, 7));
    let mut b = listener("1234-5678", bounds(2, 1, 7));
    let answer = b.receive(&sent(&start)[0], &mut none, NOW);
    let proof = a.receive(&sent(&answer)[0], &mut Attempts::default(), NOW);
    b.receive(&sent(&proof)[0], &mut none, NOW);
    b.receive(&Message::Introduction(primary()).encode(), &mut none, NOW);
    b.decide(true, NOW);
    let steps = b.receive(&Message::Agreed.encode(), &mut none, NOW);
    assert_eq!(stores(&steps), 1);
    b.stored(Ok(()), NOW);
    b
}

#[test]
fn a_listener_without_confirmation_undoes_it() {
    let ends: [fn(&mut Exchange) -> Vec<Step>; 4] = [
        Exchange::gone,
        Exchange::give_up,
        |b| b.expire(after(10)),
        |b| b.receive(b"", &mut Attempts::default(), NOW),
    ];
    for end in ends {
        let mut b = listener_has_stored();
        let steps = end(&mut b);
        assert!(steps.contains(&Step::Undo), "{steps:?}");
        assert!(failure(&steps).is_some() && b.is_over());
        assert_eq!(end(&mut b), [], "said once");
    }
    let mut b = listener_has_stored();
    let steps = b.receive(&Message::Stored.encode(), &mut Attempts::default(), NOW);
    assert!(matches!(steps[..], [Step::Done(_)]), "{steps:?}");
}

#[test]
fn every_state_has_a_deadline() {
    let mut attempts = Attempts::default();
    let (mut a, start) = caller("1234-5678", bounds(1, 2, 7));
    assert_eq!(a.expire(after(9)), []);
    assert_eq!(failure(&a.expire(after(10))), Some(&PairingError::Late));

    let mut b = listener("1234-5678", bounds(2, 1, 7));
    let late = b.receive(&sent(&start)[0], &mut attempts, after(11));
    assert_eq!(failure(&late), Some(&PairingError::Late));

    // The user has two minutes from the question.
    let (mut a, start) = caller("1234-5678", bounds(1, 2, 7));
    let mut b = listener("1234-5678", bounds(2, 1, 7));
    let answer = b.receive(&sent(&start)[0], &mut attempts, NOW);
    let proof = a.receive(&sent(&answer)[0], &mut Attempts::default(), NOW);
    b.receive(&sent(&proof)[0], &mut attempts, NOW);
    let introduction = Message::Introduction(primary()).encode();
    b.receive(&introduction, &mut attempts, after(5));
    assert_eq!(b.deadline(), after(125));
    assert_eq!(b.decide(true, after(100)).len(), 1);
    assert_eq!(failure(&b.expire(after(125))), Some(&PairingError::Late));
}

#[test]
fn messages_out_of_turn_end_it() {
    let introduction = Message::Introduction(primary()).encode();
    for early in [
        introduction,
        Message::Agreed.encode(),
        Message::Stored.encode(),
    ] {
        let mut b = listener("1234-5678", bounds(2, 1, 7));
        let steps = b.receive(&early, &mut Attempts::default(), NOW);
        assert_eq!(failure(&steps), Some(&PairingError::OutOfTurn));
        assert_eq!(sent(&steps), [Message::Stop(StopReason::Protocol).encode()]);
    }
}

#[test]
fn roles_that_do_not_match_are_refused() {
    let roles = [Role::Primary, Role::Helper, Role::Proxy];
    let fitting = roles.map(|a| roles.map(|b| a.fits(b)));
    let (yes, no) = (true, false);
    assert_eq!(fitting, [[no, yes, yes], [yes, no, no], [yes, no, no]]);

    let mut a = Party::new(caller("1234-5678", bounds(1, 2, 7)));
    let b = Exchange::new(
        End::Listener,
        &code("12345678"),
        bounds(2, 1, 7),
        primary(),
        NOW,
    );
    let (a_did, b_did) = talk(&mut a, &mut Party::new(b));
    for did in [a_did, b_did] {
        assert!(
            matches!(failure(&did), Some(PairingError::Roles { .. })),
            "{did:#?}"
        );
    }
}

fn all_messages() -> Vec<Message> {
    let mut v6 = helper();
    v6.service = Some("[2001:db8::1]:4434".parse().unwrap());
    let mut longest = v6.clone();
    longest.name = "é".repeat(MAX_NAME_BYTES / 2);
    let secret = EnrolmentSecret::from_bytes([5; ENROLMENT_SECRET_BYTES]);
    vec![
        Message::Start([3; 33]),
        Message::Proof([4; 32]),
        Message::Introduction(primary()),
        Message::Introduction(helper()),
        Message::Introduction(v6),
        Message::Introduction(longest),
        Message::Agreed,
        Message::Stored,
        Message::Stop(StopReason::TokenUsed),
        Message::Enrol {
            secret,
            name: "laptop".to_owned(),
        },
        Message::Enrolled,
    ]
}

#[test]
fn messages_round_trip_and_truncated_ones_are_refused() {
    for message in all_messages() {
        let octets = message.encode();
        assert!(octets.len() <= MAX_MESSAGE_BYTES);
        assert_eq!(Message::decode(&octets), Ok(message.clone()));
        for cut in 0..octets.len() {
            // A name may be shorter: it is the last field and never empty.
            let shorter = Message::decode(&octets[..cut]);
            let named = matches!(message, Message::Introduction(_) | Message::Enrol { .. });
            assert!(shorter.is_err() || named, "{message:?} cut to {cut}");
        }
        let long = [&octets[..], &[b'x'; MAX_MESSAGE_BYTES]].concat();
        assert_eq!(
            Message::decode(&long).unwrap_err().to_string(),
            "invalid pairing message: too long"
        );
    }
}

#[test]
fn deceptive_names_are_refused() {
    let with = |name: &str| {
        let mut i = primary();
        i.name = name.to_owned();
        Message::decode(&Message::Introduction(i).encode())
    };
    assert!(with("Anna's phone, 2nd").is_ok());
    for bad in [
        "",
        " phone",
        "a\x1b[2Jb",
        "a\nb",
        "a\u{202e}b",
        "\u{200b}",
        &"x".repeat(65),
    ] {
        assert!(with(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn other_versions_are_reported() {
    let mut octets = Message::Start([3; 33]).encode();
    octets[1] = 2;
    let error = Message::decode(&octets).unwrap_err().to_string();
    assert!(error.contains("unsupported protocol version"), "{error}");
}

#[test]
fn codes_parse_with_any_spacing() {
    for text in ["12345678", "1234-5678", " 1234 5678 ", "12-34-56-78"] {
        assert_eq!(code(text).to_string(), "1234-5678");
    }
    assert_eq!("1234".parse::<PairingCode>(), Err(CodeError::Length(4)));
    assert_eq!(
        "123456789".parse::<PairingCode>(),
        Err(CodeError::Length(9))
    );
    assert_eq!(
        "1234567O".parse::<PairingCode>(),
        Err(CodeError::Character('O'))
    );
    assert!(!format!("{:?}", code("12345678")).contains("1234"));
    let some: Vec<String> = (0..20)
        .map(|_| PairingCode::generate().unwrap().to_string())
        .collect();
    assert!(some.iter().any(|c| c != &some[0]), "{some:?}");
}

#[test]
fn invitations_and_tokens_round_trip() {
    let addresses: Vec<SocketAddr> = ["10.42.0.1:40123", "[2001:db8::1]:40123"]
        .map(|a| a.parse().unwrap())
        .to_vec();
    let invitation = Invitation {
        addresses,
        code: code("1234-5678"),
        id: id(9),
    };
    let text = invitation.to_string();
    assert!(Invitation::is_meant(&text) && !EnrolmentToken::is_meant(&text));
    assert_eq!(text.parse(), Ok(invitation.clone()));
    assert_eq!(
        format!(" {}\n", text.to_lowercase()).parse(),
        Ok(invitation)
    );

    let token = EnrolmentToken {
        address: "203.0.113.1:4433".parse().unwrap(),
        id: id(9),
        secret: EnrolmentSecret::generate().unwrap(),
    };
    let text = token.to_string();
    assert!(EnrolmentToken::is_meant(&text) && !Invitation::is_meant(&text));
    assert_eq!(text.parse(), Ok(token.clone()));
    assert_eq!(text.to_lowercase().parse(), Ok(token.clone()));
    assert!(!format!("{token:?}").contains(&text[text.len() - 32..]));

    for (text, said) in [
        ("hello", "does not begin"),
        ("MPBOND:ENROL/203.0.113.1:4433", "1 parts"),
        (
            "MPBOND:ENROL/somewhere/x/y",
            "\"somewhere\" is not an address",
        ),
        (&text[..text.len() - 1], "the secret is not 32"),
        (&format!("{text}0"), "the secret is not 32"),
        (
            &format!("{}é", &text[..text.len() - 1]),
            "the secret is not 32",
        ),
    ] {
        let error = text.parse::<EnrolmentToken>().unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
    let many = "MPBOND:PAIR/1.1.1.1:1,1.1.1.1:1,1.1.1.1:1,1.1.1.1:1,1.1.1.1:1/x/y";
    assert_eq!(many.parse::<Invitation>(), Err(TextError::Addresses(5)));
}

proptest! {
    #[test]
    fn every_record_is_a_message_or_refused(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(message) = Message::decode(&octets) {
            prop_assert_eq!(message.encode(), octets);
        }
    }

    #[test]
    fn octets_of_the_right_kind_are_a_message_or_refused(
        kind in 0_u8..10,
        rest in prop::collection::vec(prop_oneof![0_u8..8, any::<u8>()], 0..140),
    ) {
        let octets = [&[kind], &rest[..]].concat();
        if let Ok(message) = Message::decode(&octets) {
            prop_assert_eq!(message.encode(), octets);
        }
    }

    #[test]
    fn any_text_is_an_invitation_or_refused(
        text in "(MPBOND:(PAIR|ENROL)/)?[0-9A-F.:,/é -]{0,80}",
    ) {
        let _ = text.parse::<Invitation>();
        let _ = text.parse::<EnrolmentToken>();
        let _ = text.parse::<PairingCode>();
    }

    /// Random messages in any order cause neither a question nor a stored entry.
    #[test]
    fn without_the_code_nothing_is_stored(
        records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..4),
        picks in prop::collection::vec(0_usize..11, 0..8),
    ) {
        let mut b = listener("1234-5678", bounds(2, 1, 7));
        let all = all_messages();
        let picked = picks.iter().map(|i| all[*i].encode());
        let mut attempts = Attempts::default();
        for record in picked.chain(records) {
            for step in b.receive(&record, &mut attempts, NOW) {
                prop_assert!(matches!(step, Step::Send(_) | Step::Failed(_)), "{:?}", step);
            }
        }
    }
}
