//! Recorded events, in groups.

/// Kernel events that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    pub(super) name: &'static str,
    /// Folders below tracefs' `events`.
    pub(super) events: &'static [&'static str],
}

const GROUPS: [Group; 10] = [
    Group {
        name: "sched",
        events: &[
            "sched/sched_switch",
            "sched/sched_waking",
            "sched/sched_wakeup",
            "sched/sched_wakeup_new",
            "sched/sched_blocked_reason",
            "task/task_newtask",
            "task/task_rename",
        ],
    },
    Group {
        name: "irq",
        events: &[
            "irq/irq_handler_entry",
            "irq/irq_handler_exit",
            "irq/softirq_entry",
            "irq/softirq_exit",
        ],
    },
    Group {
        name: "timer",
        events: &["timer/hrtimer_expire_entry", "timer/timer_expire_entry"],
    },
    Group {
        name: "power",
        events: &[
            "power/cpu_frequency",
            "power/cpu_idle",
            "power/suspend_resume",
            "power/device_pm_callback_start",
            "power/device_pm_callback_end",
        ],
    },
    Group {
        name: "block",
        events: &["block/block_rq_issue", "block/block_rq_complete"],
    },
    Group {
        name: "net",
        events: &[
            "net/net_dev_queue",
            "net/net_dev_start_xmit",
            "net/net_dev_xmit",
            "net/napi_gro_receive_entry",
            "net/netif_rx",
            "net/netif_receive_skb",
            "skb/skb_copy_datagram_iovec",
            "skb/consume_skb",
            "skb/kfree_skb",
        ],
    },
    Group {
        name: "tcp",
        events: &[
            "tcp/tcp_probe",
            "tcp/tcp_retransmit_skb",
            "tcp/tcp_receive_reset",
            "sock/inet_sock_set_state",
        ],
    },
    Group {
        name: "binder",
        events: &[
            "binder/binder_transaction",
            "binder/binder_transaction_received",
        ],
    },
    Group {
        name: "syscalls",
        events: &["raw_syscalls/sys_enter", "raw_syscalls/sys_exit"],
    },
    Group {
        name: "kprobes",
        events: &[KPROBES],
    },
];

/// The events that are defined in kprobe_events: none, unless somebody has defined some.
const KPROBES: &str = "kprobes";

/// The group of this name, or every group but kprobes for "all".
pub(crate) fn group(name: &str) -> Result<Vec<Group>, String> {
    if name == "all" {
        let mut all = GROUPS.to_vec();
        all.retain(|group| group.name != KPROBES);
        return Ok(all);
    }
    match GROUPS.iter().find(|g| g.name == name) {
        Some(group) => Ok(vec![*group]),
        None => {
            let names: Vec<&str> = GROUPS.iter().map(|g| g.name).collect();
            Err(format!("the groups are {} and all", names.join(", ")))
        }
    }
}

/// The error where none of the events asked for can be recorded.
pub(super) fn none_of(missing: &[&str]) -> String {
    match missing {
        [KPROBES] => "no kprobe is defined in kprobe_events of tracefs".to_owned(),
        _ => format!(
            "this kernel has none of the events asked for: {}",
            missing.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kprobes_are_recorded_only_when_they_are_named() {
        let names = |of| group(of).unwrap().into_iter().map(|g| g.name);
        assert_eq!(names("all").count(), GROUPS.len() - 1);
        assert!(names("all").all(|name| name != "kprobes"));
        assert_eq!(names("kprobes").collect::<Vec<_>>(), ["kprobes"]);
        assert!(group("kprobe").unwrap_err().contains("syscalls, kprobes"));
        assert!(none_of(&["kprobes"]).starts_with("no kprobe is defined"));
        assert!(none_of(&["block/a", "kprobes"]).ends_with("block/a, kprobes"));
    }
}
