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
    // Those that are defined in kprobe_events.
    Group {
        name: "kprobes",
        events: &["kprobes"],
    },
];

/// The group of this name, or every group for "all".
pub(crate) fn group(name: &str) -> Result<Vec<Group>, String> {
    if name == "all" {
        return Ok(GROUPS.to_vec());
    }
    match GROUPS.iter().find(|g| g.name == name) {
        Some(group) => Ok(vec![*group]),
        None => {
            let names: Vec<&str> = GROUPS.iter().map(|g| g.name).collect();
            Err(format!("the groups are {} and all", names.join(", ")))
        }
    }
}
