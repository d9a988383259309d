package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

const (
	clusterMasters = 3
	clusterSlots   = 16384
)

// startRedis starts a Redis for the benchmark, with the settings of
// scripts/with-servers and more.
func startRedis(ctx context.Context, folder string, more ...string) (*process, error) {
	dir, err := os.MkdirTemp(folder, "redis")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("redis-server", append([]string{
		"--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--appendonly", "no", "--set-max-intset-entries", "5001",
	}, more...)...)
	cmd.Stdout = log
	return startProcess(cmd, func() (string, error) {
		return addr, withClient(addr, func(rdb *redis.Client) error {
			return await(ctx, "redis responds", func() (bool, error) { return rdb.Ping(ctx).Err() == nil, nil })
		})
	})
}

// startCluster starts a Redis Cluster of masters without replicas and waits until it
// serves all slots.
func startCluster(ctx context.Context, folder string) (nodes []*process, err error) {
	defer func() {
		if err != nil {
			nodes, err = nil, errors.Join(err, stopAll(nodes))
		}
	}()
	var buses []string
	for range clusterMasters {
		bus, err := freeAddr(ctx)
		if err != nil {
			return nodes, err
		}
		_, port, err := net.SplitHostPort(bus)
		if err != nil {
			return nodes, err
		}
		node, err := startRedis(ctx, folder, "--cluster-enabled", "yes", "--cluster-port", port)
		if err != nil {
			return nodes, err
		}
		nodes, buses = append(nodes, node), append(buses, port)
	}
	for i, node := range nodes {
		if err := withClient(node.addr, func(rdb *redis.Client) error { return join(ctx, rdb, i, nodes, buses) }); err != nil {
			return nodes, err
		}
	}
	for _, node := range nodes {
		err := withClient(node.addr, func(rdb *redis.Client) error {
			return await(ctx, "the cluster is complete", func() (bool, error) {
				info := rdb.ClusterInfo(ctx).Val()
				return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(clusterMasters)), nil
			})
		})
		if err != nil {
			return nodes, err
		}
	}
	return nodes, nil
}

// join gives the i-th node its part of the slots and introduces it to those before.
func join(ctx context.Context, rdb *redis.Client, i int, nodes []*process, buses []string) error {
	errs := []error{
		rdb.ClusterAddSlotsRange(ctx, i*clusterSlots/clusterMasters, (i+1)*clusterSlots/clusterMasters-1).Err(),
		rdb.Do(ctx, "cluster", "set-config-epoch", i+1).Err(),
	}
	for j, other := range nodes[:i] {
		host, port, err := net.SplitHostPort(other.addr)
		errs = append(errs, err, rdb.Do(ctx, "cluster", "meet", host, port, buses[j]).Err())
	}
	return errors.Join(errs...)
}

func stopAll(processes []*process) error {
	var errs []error
	for _, p := range processes {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
}

// withClient calls do with a client of one server.
func withClient(addr string, do func(*redis.Client) error) error {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	return errors.Join(do(rdb), rdb.Close())
}

// freeAddr returns a free address of the loopback interface.
func freeAddr(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
