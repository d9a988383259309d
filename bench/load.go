package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// rotate gives requests that were made before, again and again.
func rotate(requests [][]byte) func() []byte {
	var next atomic.Int64
	return func() []byte { return requests[int(next.Add(1))%len(requests)] }
}

// load sends requests over so many connections for a while, each connection
// the next as soon as it has its answer, and tells how many were answered a
// second. It makes next to nothing of a request and reads no more of an answer
// than it must, so that it takes little of the machine from what is measured.
func load(ctx context.Context, addr string, connections int, d time.Duration, next func() []byte) (float64, error) {
	var (
		done   atomic.Int64
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed error
	)
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	start := time.Now()
	for range connections {
		wg.Go(func() {
			err := converse(ctx, addr, next, func() { done.Add(1) })
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, err)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(start).Seconds(), failed
}

// steady sends requests at a constant rate until ctx ends, over as many
// connections as that needs, and tells how long each took from the moment at
// which it was due: who is kept waiting by a slow answer before is counted too.
func steady(ctx context.Context, addr string, connections, rate int, requests [][]byte) ([]time.Duration, error) {
	var (
		next   atomic.Int64
		wg     sync.WaitGroup
		mu     sync.Mutex
		all    []time.Duration
		failed error
	)
	start := time.Now()
	for range connections {
		wg.Go(func() {
			var due time.Time
			var took []time.Duration
			var done counter = func() { took = append(took, time.Since(due)) }
			err := converse(ctx, addr, func() []byte {
				i := next.Add(1)
				due = start.Add(time.Duration(i) * time.Second / time.Duration(rate))
				select {
				case <-time.After(time.Until(due)):
				case <-ctx.Done():
				}
				return requests[int(i)%len(requests)]
			}, done)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			failed = errors.Join(failed, err)
		})
	}
	wg.Wait()
	return all, failed
}

// counter is told of every answer.
type counter func()

// converse is one connection's requests and answers.
func converse(ctx context.Context, addr string, next func() []byte, done counter) (err error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	in := bufio.NewReaderSize(conn, 32<<10)
	for ctx.Err() == nil {
		if _, err := conn.Write(next()); err != nil {
			return err
		}
		if err := readAnswer(in); err != nil {
			return err
		}
		done()
	}
	return nil
}

var contentLength = []byte("Content-Length: ")

// readAnswer reads one answer of status 200 or 202 with a length or in chunks.
func readAnswer(in *bufio.Reader) error {
	status, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 20")) {
		rest, _ := in.Peek(in.Buffered())
		return fmt.Errorf("answered %s%s", status, rest)
	}
	length := -1
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if bytes.HasPrefix(line, contentLength) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(contentLength):]))); err != nil {
				return err
			}
		}
	}
	if length >= 0 {
		_, err := in.Discard(length)
		return err
	}
	return readChunks(in)
}

func readChunks(in *bufio.Reader) error {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 64)
		if err != nil {
			return err
		}
		if _, err := in.Discard(int(n) + 2); err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
	}
}

// httpRequest is a request's bytes.
func httpRequest(method, path, token, body string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: bench\r\n", method, path)
	if token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", token)
	}
	if body != "" {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	fmt.Fprintf(&b, "\r\n%s", body)
	return b.Bytes()
}

// loop runs work in so many goroutines for a while and tells how often a
// second.
func loop(ctx context.Context, goroutines int, d time.Duration, work func(ctx context.Context, i int) error) (float64, error) {
	var (
		next, done atomic.Int64
		wg         sync.WaitGroup
		failed     atomic.Pointer[error]
	)
	stop, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	start := time.Now()
	for range goroutines {
		wg.Go(func() {
			for stop.Err() == nil {
				if err := work(ctx, int(next.Add(1))); err != nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	rate := float64(done.Load()) / time.Since(start).Seconds()
	if err := failed.Load(); err != nil && !errors.Is(*err, io.EOF) {
		return rate, *err
	}
	return rate, nil
}
