package faults

// boundsRows are about bounds, and what other parts of a cluster do.
func boundsRows() []Row {
	return []Row{
		{40, `2,000 connections that send one byte a second to either port`,
			`probe and one real run still pass; files bounded`, places(
				at(Processes, "test/hostile", "TestTheHarnessSurvivesHostileClients"),
				at(Component, "internal/gate", "TestOfAStrangerFewRequestsAreTakenInAtOnce"),
				at(Component, "delivery/kontext", "TestAFloodOfIdleConnectionsEndsNoRun", "TestBodiesInMemoryAreBoundedTogether"),
				at(Component, "delivery/server", "TestStrangersKeepNobodyOut", "TestStrangersBodiesAreBoundedTogether"),
				at(Component, "internal/gate", "TestTheOldestStrangerMakesRoom"),
				at(Component, "runtime/endpoint",
					"TestConnectionsAreBoundedAndTheNextOneGetsIn",
					"TestABodyIsNotWaitedFor",
					"TestAStrangerHasFewRequestsUnderWay",
					"TestViewersLeaveRoomForThoseWhoSteer"),
			)},
		{41, `a viewer that never reads during a 20 MB reply`,
			`closed; run and other viewers unaffected; memory bounded`, places(
				at(Component, "runtime/attach", "TestAClientThatNeverReadsCostsNobodyAnything"),
			)},
		{42, `panic in a worker, in a reconcile, in a connection`,
			`counted; the same attempt goes on; the process lives`, places(
				at(Component, "controller/deliver", "TestAPanicInAWriteIsThePasss"),
				at(Component, "delivery/client", "TestALinkSurvivesPanics"),
				at(Processes, "test/faults", "TestRow42_APanicInTheControllerIsSurvived", "TestRow42_APanicInTheHarnessIsSurvived"),
				at(Component, "delivery/kontext", "TestAPanicIsAnAnswer"),
				at(Component, "delivery/server", "TestAPanicInARequestIsASigned500", "TestARunnerThatPanicsEndsItsAttempt", "TestAPanicAfterAWriteLeavesTheAttemptAlive"),
				at(Component, "delivery/journal", "TestAPanicAfterAWriteLeavesMemoryAndFileTheSame"),
			)},
		{43, `one Agent queues 9,900 runs, another 100`,
			`the small one's waiting is its own`, places(
				at(Decision, "delivery", "TestAssignIsFairBoundedAndDeterministic"),
			)},
		{44, `controller restarted with 10,000 runs in flight on 500 targets`,
			`one list per Pod; bounded memory; each recorded once`, places(
				at(Processes, "test/bench/scale", "TestRow44_KilledWithHundredsInFlight"),
				at(API, "controller/deliver", "TestRow44_ARestartAsksEachTargetOnce", "TestRow44_ATargetThatNeverListsKeepsNoRunWaiting"),
				at(Component, "controller/deliver", "TestRow44_WhatWasInFlightIsLeftToTheLinks", "TestRow44_AListWakesEachRunOnce"),
				at(Decision, "delivery", "BenchmarkAssign10000RunsTo500Targets"),
			)},
		{45, `webhook absent or down at creation; a later mutator changes a resolved field`,
			`refused, or Failed/NotAdmitted; never executed unresolved`, places(
				at(Processes, "test/faults", "TestRow45_StoredWithoutAdmission"),
				at(API, "controller/admission", "TestARunThatAnotherMutatorChangedIsRefused", "TestWithoutAWebhookServerOnlyTrustedWritesPass"),
				at(API, "controller/deliver", "TestWhatMayNotRunEnds"),
				at(Decision, "delivery", "TestRunWithoutAReservation"),
			)},
		{46, `Pod force-deleted while its node is cut off and the process lives on`,
			"no second attempt while `backoffLimit: 0`; the survivor's result is never recorded on another attempt", places(
				at(API, "controller/deliver", "TestALostTargetEndsTheRunOrHasItTriedElsewhere"),
				at(Decision, "delivery", "TestWhatTheHarnessHolds", "TestOrphan"),
			)},
		{47, `Pod evicted (phase Failed, object still there) mid-run`,
			`TargetLost at once, not at the deadline`, places(
				at(Processes, "test/faults", "TestRow47_AnEvictedPodsRunIsLostAtOnce"),
				at(API, "controller/deliver", "TestAnEvictedTargetIsLostAtOnce"),
				at(Decision, "controller/run", "TestStatusOfAOneShotRunFollowsItsPod"),
				at(Decision, "delivery", "TestTheTargetFails"),
			)},
	}
}
