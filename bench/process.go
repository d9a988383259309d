package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/pause"
)

// memoryGrowth returns by how many bytes the data of Redis and its keys grow during work.
func (e *environment) memoryGrowth(ctx context.Context, work func()) int64 {
	before := redisNumber(ctx, e.rdb, "used_memory")
	work()
	return redisNumber(ctx, e.rdb, "used_memory") - before
}

// redisInfo returns one field of INFO.
func redisInfo(ctx context.Context, rdb *redis.Client, field string) string {
	_, rest, _ := strings.Cut(must(rdb.Info(ctx).Result()), "\n"+field+":")
	value, _, _ := strings.Cut(rest, "\r")
	return value
}

func redisNumber(ctx context.Context, rdb *redis.Client, field string) int64 {
	return must(strconv.ParseInt(redisInfo(ctx, rdb, field), 10, 64))
}

// findStores finds the processes of Redis and Postgres.
func (e *environment) findStores(ctx context.Context) {
	e.redisServer = &process{pid: int(redisNumber(ctx, e.rdb, "process_id"))}
	var backend int
	check(e.stores.Pool.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend))
	parent := (&process{pid: backend}).status("PPid:")
	if parent == 0 {
		check(errors.New("postgres is not on this machine"))
	}
	e.postgresServer = &process{pid: int(parent), withChildren: true}
}

// process is a server; cmd is nil unless it was started here and runs. A nil process is none.
type process struct {
	cmd  *exec.Cmd
	pid  int
	addr string
	// withChildren reports that child processes do the work, too, as in Postgres.
	withChildren bool
}

// startTimeout bounds how long a process may take to start.
const startTimeout = 30 * time.Second

var serving = regexp.MustCompile(`"msg":"serving","addr":"([^"]+)"`)

// start starts a program that logs its address, and waits for that. The log is a file, which it
// writes line by line, as it would to a collector.
func (e *environment) start(ctx context.Context, name, program string, args ...string) *process {
	log := must(os.Create(filepath.Join(e.folder, name+".log")))
	cmd := exec.Command(program, args...)
	cmd.Stderr = log
	check(cmd.Start())
	p := &process{cmd: cmd, pid: cmd.Process.Pid}
	e.started = append(e.started, p)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		text, err := os.ReadFile(log.Name())
		if m := serving.FindSubmatch(text); m != nil {
			p.addr = string(m[1])
			return p
		}
		if err == nil {
			err = pause.For(ctx, time.Millisecond)
		}
		if err != nil {
			check(fmt.Errorf("start %s: %w: %s", name, err, text))
		}
	}
}

// stop stops the process, unless it was stopped before, and waits for its end.
func (p *process) stop() {
	if p.cmd == nil {
		return
	}
	cmd := p.cmd
	p.cmd = nil
	check(cmd.Process.Signal(syscall.SIGINT))
	check(cmd.Wait())
}

// ticksPerSecond is the unit of CPU time in /proc.
const ticksPerSecond = 100

// cpu returns the CPU time that the process has used; 0 without a process.
func (p *process) cpu() time.Duration {
	if p == nil {
		return 0
	}
	spent := cpuTime(p.pid, p.withChildren)
	for _, child := range p.children() {
		spent += cpuTime(child, false)
	}
	return spent
}

// children returns the child processes, if the process is one with children.
func (p *process) children() (pids []int) {
	if !p.withChildren {
		return nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.pid, p.pid))
	if err != nil {
		return nil
	}
	for _, child := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(child); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// cpuTime returns the CPU time of a process and, if ended is true, of its children
// that have ended.
func cpuTime(pid int, ended bool) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may contain any character. utime and stime are the
	// 12th and 13th fields after it, those of ended children the next two.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))[11:15]
	if !ended {
		fields = fields[:2]
	}
	var spent time.Duration
	for _, field := range fields {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0
		}
		spent += time.Duration(ticks) * time.Second / ticksPerSecond
	}
	return spent
}

// machineTime returns the CPU time that all processes, interrupts and other machines on the same
// cores have used.
func machineTime() (spent time.Duration) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	// user, nice, system, idle, iowait, irq, softirq, steal
	for i, field := range strings.Fields(string(text))[1:9] {
		if ticks, err := strconv.ParseInt(field, 10, 64); err == nil && i != 3 && i != 4 {
			spent += time.Duration(ticks) * time.Second / ticksPerSecond
		}
	}
	return spent
}

// memory returns the process's resident memory in bytes: now (VmRSS:), or at its peak (VmHWM:).
func (p *process) memory(field string) int64 { return p.status(field) << 10 }

// share returns the process's resident memory in bytes, with that of its children. Of what several
// processes share, each has its part.
func (p *process) share() (bytes int64) {
	if p == nil {
		return 0
	}
	for _, pid := range append(p.children(), p.pid) {
		bytes += number(pid, "smaps_rollup", "Pss:") << 10
	}
	return bytes
}

// status returns a number of the process's status; 0 if it has none.
func (p *process) status(field string) int64 {
	if p == nil {
		return 0
	}
	return number(p.pid, "status", field)
}

// number returns a number of a file in /proc of a process; 0 if it has none.
func number(pid int, file, field string) (n int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "\n"+field)
	_, _ = fmt.Sscan(rest, &n)
	return n
}
