package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
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
	named("find the Postgres of this machine", func() {
		parent := must(must(procfs.NewProc(backend)).Stat()).PPID
		e.postgresServer = &process{pid: parent, withChildren: true}
	})
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

// family returns the process and, if it is one with children, these; nothing without a process.
func (p *process) family() (list procfs.Procs) {
	if p == nil {
		return nil
	}
	list = append(list, must(procfs.NewProc(p.pid)))
	if !p.withChildren {
		return list
	}
	for _, other := range must(procfs.AllProcs()) {
		if stat, err := other.Stat(); err == nil && stat.PPID == p.pid { // otherwise it may have ended
			list = append(list, other)
		}
	}
	return list
}

// ticksPerSecond is the unit of CPU time in /proc.
const ticksPerSecond = 100

// cpu returns the CPU time that the process has used, with that of its children; 0 without a process.
func (p *process) cpu() time.Duration {
	ticks := 0
	for _, member := range p.family() {
		stat, err := member.Stat()
		if err != nil {
			continue // a child that has ended
		}
		ticks += int(stat.UTime + stat.STime)
		if p.withChildren && member.PID == p.pid {
			ticks += stat.CUTime + stat.CSTime // of the children that have ended
		}
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}

// machineTime returns the CPU time that all processes, interrupts and other machines on the same
// cores have used.
func machineTime() time.Duration {
	spent := must(must(procfs.NewDefaultFS()).Stat()).CPUTotal
	return time.Duration((spent.User + spent.Nice + spent.System + spent.IRQ + spent.SoftIRQ + spent.Steal) * float64(time.Second))
}

// share returns the process's resident memory in bytes, with that of its children. Of what several
// processes share, each has its part.
func (p *process) share() (bytes uint64) {
	for _, member := range p.family() {
		if memory, err := member.ProcSMapsRollup(); err == nil { // otherwise a child has ended
			bytes += memory.Pss
		}
	}
	return bytes
}

// status returns the process's status; nothing without a process.
func (p *process) status() (status procfs.ProcStatus) {
	if p != nil {
		status = must(must(procfs.NewProc(p.pid)).NewStatus())
	}
	return status
}
