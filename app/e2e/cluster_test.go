package e2e_test

import (
	"testing"

	"stepboard/config"
	"stepboard/internal/testenv"
)

// The contract holds on a Redis Cluster, with boards of one shard and of many.
func TestTheContractOnACluster(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	testContract(t, cluster.Use)
}

// The contract holds on a Redis that Sentinels watch over.
func TestTheContractOnSentinel(t *testing.T) {
	t.Parallel()
	sentinels := testenv.StartSentinels(t)
	testContract(t, sentinels.Use)
}

// testContract runs what testenv.Each runs on one server on another kind of
// Redis.
func testContract(t *testing.T, use func(*config.Redis)) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *testenv.Env){
		"who may call what":           testWhoMayCallWhat,
		"parameters that are refused": testParametersThatAreRefused,
		"ids that are refused":        testIDsThatAreRefused,
		"mistyped keys":               testMistypedKeys,
		"friends":                     testFriendsOverHTTP,
		"a ranking":                   testARankingOverHTTP,
		"outside":                     testOutside,
		"history":                     testHistoryOverHTTP,
		"histories that are refused":  testHistoriesThatAreRefused,
		"archived days":               testArchivedDaysWithoutRedis,
		"archives":                    testArchivesOverHTTP,
		"pages of archives":           testPagesOfArchives,
		"more shards":                 testMoreShards,
		"uploads":                     testUploads,
		"a batch":                     testBatch,
		"redis away":                  testRedisAway,
		"increments":                  testIncrements,
		"increments that are refused": testIncrementsThatAreRefused,
		"calls of other kinds":        testCallsOfOtherKinds,
		"when an event is open":       testWhenAnEventIsOpen,
		"a prize":                     testAPrize,
		"boards defined at runtime":   testBoardsDefinedWhileRunning,
		"a stream":                    testStream,
		"the limit of a user":         testLimitOfAUser,
		"the limit of an address":     testLimitOfAnAddress,
	} {
		for _, shards := range []int{1, 16} {
			t.Run(name+map[int]string{1: "", 16: ", 16 shards"}[shards], func(t *testing.T) {
				t.Parallel()
				env := testenv.RealOn(t, use)
				for i := range env.Config.Boards {
					env.Config.Boards[i].Shards = shards
				}
				test(t, env)
			})
		}
	}
}
