"""Names of system calls, which the kernel knows by numbers: those that servers make, from Linux' ``asm/unistd.h``."""

from __future__ import annotations

import platform

_X86_64 = """
0:read 1:write 2:open 3:close 4:stat 5:fstat 7:poll 8:lseek 9:mmap 10:mprotect 11:munmap 12:brk 13:rt_sigaction
14:rt_sigprocmask 15:rt_sigreturn 16:ioctl 17:pread64 18:pwrite64 19:readv 20:writev 21:access 23:select
24:sched_yield 25:mremap 26:msync 28:madvise 32:dup 35:nanosleep 39:getpid 40:sendfile 41:socket 42:connect 43:accept
44:sendto 45:recvfrom 46:sendmsg 47:recvmsg 48:shutdown 49:bind 50:listen 51:getsockname 52:getpeername 53:socketpair
54:setsockopt 55:getsockopt 56:clone 57:fork 58:vfork 59:execve 60:exit 61:wait4 62:kill 63:uname 72:fcntl 74:fsync
75:fdatasync 77:ftruncate 82:rename 87:unlink 89:readlink 96:gettimeofday 98:getrusage 100:times 102:getuid
107:geteuid 128:rt_sigtimedwait 131:sigaltstack 149:mlock 157:prctl 186:gettid 200:tkill 202:futex
203:sched_setaffinity 204:sched_getaffinity 217:getdents64 218:set_tid_address 219:restart_syscall 228:clock_gettime
230:clock_nanosleep 231:exit_group 232:epoll_wait 233:epoll_ctl 234:tgkill 247:waitid 257:openat 258:mkdirat
262:newfstatat 263:unlinkat 264:renameat 267:readlinkat 269:faccessat 270:pselect6 271:ppoll 273:set_robust_list
275:splice 281:epoll_pwait 283:timerfd_create 285:fallocate 286:timerfd_settime 288:accept4 290:eventfd2
291:epoll_create1 292:dup3 293:pipe2 299:recvmmsg 302:prlimit64 307:sendmmsg 310:process_vm_readv
311:process_vm_writev 316:renameat2 318:getrandom 319:memfd_create 324:membarrier 332:statx 334:rseq
424:pidfd_send_signal 425:io_uring_setup 426:io_uring_enter 427:io_uring_register 434:pidfd_open 435:clone3
436:close_range 437:openat2 439:faccessat2 441:epoll_pwait2 449:futex_waitv
"""
_AARCH64 = """
19:eventfd2 20:epoll_create1 21:epoll_ctl 22:epoll_pwait 23:dup 24:dup3 25:fcntl 29:ioctl 34:mkdirat 35:unlinkat
38:renameat 46:ftruncate 47:fallocate 48:faccessat 56:openat 57:close 59:pipe2 61:getdents64 62:lseek 63:read 64:write
65:readv 66:writev 67:pread64 68:pwrite64 71:sendfile 72:pselect6 73:ppoll 76:splice 78:readlinkat 79:newfstatat
80:fstat 82:fsync 83:fdatasync 85:timerfd_create 86:timerfd_settime 93:exit 94:exit_group 95:waitid 96:set_tid_address
98:futex 99:set_robust_list 101:nanosleep 113:clock_gettime 115:clock_nanosleep 122:sched_setaffinity
123:sched_getaffinity 124:sched_yield 128:restart_syscall 129:kill 130:tkill 131:tgkill 132:sigaltstack
134:rt_sigaction 135:rt_sigprocmask 137:rt_sigtimedwait 139:rt_sigreturn 153:times 160:uname 165:getrusage 167:prctl
169:gettimeofday 172:getpid 174:getuid 175:geteuid 178:gettid 198:socket 199:socketpair 200:bind 201:listen 202:accept
203:connect 204:getsockname 205:getpeername 206:sendto 207:recvfrom 208:setsockopt 209:getsockopt 210:shutdown
211:sendmsg 212:recvmsg 214:brk 215:munmap 216:mremap 220:clone 221:execve 222:mmap 226:mprotect 227:msync 228:mlock
233:madvise 242:accept4 243:recvmmsg 260:wait4 261:prlimit64 269:sendmmsg 270:process_vm_readv 271:process_vm_writev
276:renameat2 278:getrandom 279:memfd_create 283:membarrier 291:statx 293:rseq 424:pidfd_send_signal
425:io_uring_setup 426:io_uring_enter 427:io_uring_register 434:pidfd_open 435:clone3 436:close_range 437:openat2
439:faccessat2 441:epoll_pwait2 449:futex_waitv
"""
_TABLES = {"x86_64": _X86_64, "aarch64": _AARCH64, "arm64": _AARCH64}


def _names(table: str) -> dict[int, str]:
    return {int(number): name for number, _, name in (entry.partition(":") for entry in table.split())}


_NAMES = _names(_TABLES.get(platform.machine(), ""))


def name_of(number: int) -> str:
    """The name of a call on this machine's architecture; ``system call 123`` if it is not known here."""
    return _NAMES.get(number) or f"system call {number}"
