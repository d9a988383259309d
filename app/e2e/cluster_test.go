package e2e_test

import (
	"maps"
	"slices"
	"testing"

	"stepboard/config"
	"stepboard/internal/testenv"
)

// The contract holds on a Redis Cluster, with boards of 16 shards.
func TestContractOnACluster(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	testContract(t, 16, cluster.Use)
}

// The contract holds on a Redis that Sentinels watch, with boards of one shard.
func TestContractOnSentinel(t *testing.T) {
	t.Parallel()
	sentinels := testenv.StartSentinels(t)
	testContract(t, 1, sentinels.Use)
}

// The contract holds if the servers have lost each script before it is called, on one server and
// on a cluster.
func TestContractWithFlushedScripts(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	server, cluster := testenv.StartRedis(t), testenv.StartCluster(t)
	for name, on := range map[string]struct {
		use   func(*config.Redis)
		nodes []*testenv.Node
	}{"server": {server.Use, []*testenv.Node{server.Node}}, "cluster": {cluster.Use, cluster.Masters()}} {
		for what, test := range map[string]func(*testing.T, *testenv.Env){
			"every operation": testOperations, "a ranking": testRankingOverHTTP, "an older Postgres": testRebuildLowersBoards,
			"the limit of a user": testLimitOfAUser,
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				env := testenv.RealOn(t, on.use)
				testenv.FlushScripts(env.Redis)
				for i := range env.Config.Boards {
					env.Config.Boards[i].Shards = 4
				}
				test(t, env)
			})
		}
		t.Cleanup(func() {
			for _, node := range on.nodes {
				if node.Refused("NOSCRIPT") == 0 {
					t.Errorf("a node of the %s never lacked a script", name)
				}
			}
		})
	}
}

// testContract runs on another kind of Redis the tests that testenv.Each runs
// on a single server.
func testContract(t *testing.T, shards int, use func(*config.Redis)) {
	t.Helper()
	tests := map[string]func(*testing.T, *testenv.Env){
		"every operation":             testOperations,
		"parameters that are refused": testRefusedParameters,
		"a ranking":                   testRankingOverHTTP,
		"outside":                     testPathsOutsideTheAPI,
		"history":                     testHistoryOverHTTP,
		"archives":                    testArchivesOverHTTP,
		"uploads":                     testUploads,
		"redis away":                  testBoardsWithoutRedis,
		"increments":                  testIncrements,
		"calls of other kinds":        testCallsOnOtherKindsOfBoards,
		"an older Postgres":           testRebuildLowersBoards,
		"a stream":                    testStream,
		"the limit of a user":         testLimitOfAUser,
	}
	// What is tried always calls every operation once, reads and writes boards, archives, and loses Redis.
	always := []string{"every operation", "a ranking", "archives", "redis away"}
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(tests)), func(name string) bool { return slices.Contains(always, name) })
	for _, name := range append(always, testenv.OtherForms(t, others)...) {
		test := tests[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := testenv.RealOn(t, use)
			for i := range env.Config.Boards {
				env.Config.Boards[i].Shards = shards
			}
			test(t, env)
		})
	}
}
