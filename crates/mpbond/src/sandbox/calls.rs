//! Refused system calls (seccomp(2)): those that no daemon makes once it is set up, and that an
//! attacker in control of it would use.
//!
//! The list names refused calls, not allowed ones: name look-ups run libraries that the system's
//! administrator has chosen, and future C libraries make calls that do not exist today. Calls on no
//! list are still limited by the dropped capabilities and files. (The systemd units have a list of
//! allowed calls as well.) A refused call fails with EPERM, as it does for any
//! ordinary user; nothing is killed.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

#[cfg(target_arch = "x86_64")]
const ARCH: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCH: TargetArch = TargetArch::aarch64;

/// Refused whatever their arguments.
const REFUSED: &[libc::c_long] = &[
    // Running other programs.
    libc::SYS_execve,
    libc::SYS_execveat,
    // Reading and changing other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // Other namespaces, other roots, other file systems.
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // Files by other means than their path, and special files.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_mknodat,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    // Other users.
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    // The kernel: programs in it, modules, another one, its logs and keys, its clock and name.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_personality,
    // Calls with a history of vulnerabilities, which nothing here uses.
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
];

/// Calls of this processor only.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[libc::c_long] = &[
    libc::SYS_kexec_file_load,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_mknod,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS_lookup_dcookie,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[libc::c_long] = &[
    // kexec_file_load (include/uapi/asm-generic/unistd.h), which libc lacks with musl.
    294,
];

/// The same calls for programs with short pointers (x32), which the kernel may take from any
/// program: their numbers have this bit.
#[cfg(target_arch = "x86_64")]
const TWIN: Option<libc::c_long> = Some(0x4000_0000);
#[cfg(not(target_arch = "x86_64"))]
const TWIN: Option<libc::c_long> = None;

/// Numbers of x32 that have no twin: execve, ptrace, kexec_load, move_pages, process_vm_readv,
/// process_vm_writev, execveat (arch/x86/entry/syscalls/syscall_64.tbl).
const WITHOUT_TWIN: [libc::c_long; 7] = [520, 521, 528, 533, 539, 540, 545];

/// Allowed socket families: connections, status, and netlink for the addresses that name look-ups
/// and multicast DNS need.
const FAMILIES: [libc::c_int; 4] = [
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
];

/// Mask of the socket type in socket(2)'s second argument, without flags.
const SOCKET_TYPE: u64 = 0xf;

/// Refuses them to this thread and those that it will start; returns how many are refused
/// altogether.
pub(super) fn refuse() -> Result<usize, seccompiler::Error> {
    // An empty list of conditions: in any case.
    let always = REFUSED.iter().chain(REFUSED_HERE);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    rules.extend(always.map(|call| (*call, Vec::new())));
    let refused = rules.len();
    rules.insert(libc::SYS_clone, vec![process()?]);
    rules.insert(libc::SYS_socket, sockets()?);
    if let Some(bit) = TWIN {
        let twins = rules.clone().into_iter();
        rules.extend(twins.map(|(call, conditions)| (call | bit, conditions)));
        rules.extend(WITHOUT_TWIN.map(|call| (call | bit, Vec::new())));
    }
    install(rules, libc::EPERM)?;
    // clone3's flags are in memory, which a filter cannot read. On ENOSYS the C
    // library starts threads by clone(2).
    let bits = [Some(0), TWIN].into_iter().flatten();
    let mut clone3 = BTreeMap::new();
    clone3.extend(bits.map(|bit| (libc::SYS_clone3 | bit, Vec::new())));
    install(clone3, libc::ENOSYS)?;
    Ok(refused)
}

fn install(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    errno: libc::c_int,
) -> Result<(), seccompiler::Error> {
    let refusal = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, ARCH)?;
    let program: BpfProgram = filter.try_into()?;
    apply_filter(&program)
}

/// clone(2) without CLONE_THREAD: a new process.
fn process() -> Result<SeccompRule, BackendError> {
    let thread = libc::CLONE_THREAD.unsigned_abs().into();
    SeccompRule::new(vec![is(0, SeccompCmpOp::MaskedEq(thread), 0)?])
}

/// Sockets of any other family, and those that see or make packets as they are on the wire.
fn sockets() -> Result<Vec<SeccompRule>, BackendError> {
    let other = FAMILIES.map(|family| is(0, SeccompCmpOp::Ne, family));
    let other = other.into_iter().collect::<Result<_, _>>()?;
    let mut rules = vec![SeccompRule::new(other)?];
    for family in [libc::AF_INET, libc::AF_INET6] {
        let family = is(0, SeccompCmpOp::Eq, family)?;
        let raw = is(1, SeccompCmpOp::MaskedEq(SOCKET_TYPE), libc::SOCK_RAW)?;
        rules.push(SeccompRule::new(vec![family, raw])?);
    }
    Ok(rules)
}

fn is(
    argument: u8,
    how: SeccompCmpOp,
    value: libc::c_int,
) -> Result<SeccompCondition, BackendError> {
    let value = value.unsigned_abs().into();
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)
}
