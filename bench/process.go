package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// usedMemory matches the size of the data and its keys in the output of INFO.
var usedMemory = regexp.MustCompile(`used_memory:(\d+)`)

// memoryGrowth returns by how many bytes the data of Redis and its keys grow during work.
func (e *environment) memoryGrowth(ctx context.Context, work func() error) (int64, error) {
	size := func() (n int64, err error) {
		info, err := e.rdb.Info(ctx, "memory").Result()
		if err != nil {
			return 0, err
		}
		m := usedMemory.FindStringSubmatch(info)
		if m == nil {
			return 0, errors.New("redis does not report used_memory")
		}
		_, err = fmt.Sscan(m[1], &n)
		return n, err
	}
	before, err := size()
	if err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	after, err := size()
	return after - before, err
}

// serverInfo returns one field of INFO server.
func serverInfo(ctx context.Context, rdb *redis.Client, field string) (string, error) {
	info, err := rdb.Info(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(info, field+":")
	value, _, _ := strings.Cut(rest, "\r")
	return value, nil
}

// findRedis returns the process of Redis.
func findRedis(ctx context.Context, rdb *redis.Client) (*process, error) {
	pid, err := serverInfo(ctx, rdb, "process_id")
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(pid)
	return &process{pid: n}, err
}

// findPostgres returns the process of Postgres, the parent of each connection's.
func findPostgres(ctx context.Context, pool *pgxpool.Pool) (*process, error) {
	var backend int
	if err := pool.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return nil, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", backend))
	if err != nil {
		return nil, fmt.Errorf("postgres is not on this machine: %w", err)
	}
	_, rest, _ := strings.Cut(string(status), "\nPPid:")
	line, _, _ := strings.Cut(rest, "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	return &process{pid: pid, withChildren: true}, err
}

// process is a server; cmd is nil unless it was started here.
type process struct {
	cmd  *exec.Cmd
	pid  int
	addr string
	// withChildren reports that child processes do the work, too, as in Postgres.
	withChildren bool
}

// ticksPerSecond is the unit of CPU time in /proc.
const ticksPerSecond = 100

// cpu returns the CPU time that the process has used; 0 without a process.
func (p *process) cpu() time.Duration {
	if p == nil {
		return 0
	}
	spent := cpuTime(p.pid, p.withChildren)
	if !p.withChildren {
		return spent
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.pid, p.pid))
	if err != nil {
		return spent
	}
	for _, child := range strings.Fields(string(children)) {
		if pid, err := strconv.Atoi(child); err == nil {
			spent += cpuTime(pid, false)
		}
	}
	return spent
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

func startProcess(cmd *exec.Cmd, addr func() (string, error)) (*process, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, pid: cmd.Process.Pid}
	text, err := addr()
	p.addr = strings.TrimSpace(text)
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	return p.cmd.Wait()
}

// rss returns the process's resident memory in bytes.
func (p *process) rss() int64 { return p.memory("VmRSS:") }

// peakRSS returns the peak of the process's resident memory in bytes.
func (p *process) peakRSS() int64 { return p.memory("VmHWM:") }

func (p *process) memory(field string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), field)
	var kb int64
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		return 0
	}
	return kb << 10
}

var serving = regexp.MustCompile(`"msg":"serving","addr":"([^"]+)"`)

// startTimeout bounds how long a process may take to start.
const startTimeout = 30 * time.Second

// await calls is every millisecond until it returns true or an error.
func await(ctx context.Context, what string, is func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		if done, err := is(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

// awaitServing waits for the service's address in its log and returns it.
func awaitServing(ctx context.Context, path string) (addr string, err error) {
	var text []byte
	waited := await(ctx, "the service is serving", func() (bool, error) {
		if text, err = os.ReadFile(path); err != nil {
			return false, err
		}
		m := serving.FindSubmatch(text)
		if m != nil {
			addr = string(m[1])
		}
		return m != nil, nil
	})
	if waited != nil {
		return "", fmt.Errorf("%w: %s", waited, text)
	}
	return addr, nil
}
