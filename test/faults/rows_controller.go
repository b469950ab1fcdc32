package faults

// controllerRows are about the controller and its API server.
func controllerRows() []Row { //nolint:funlen // a table
	return []Row{
		{1, `controller killed before reserve`,
			`attempt 1 by the next one; one effect`, places(
				at(Processes, "test/faults", "TestRow01_KilledBeforeTheReservation", "TestACrashOfTheControllerAtAnyPoint"),
			)},
		{2, `killed after reserve`,
			`same attempt to the same Pod UID`, places(
				at(Processes, "test/faults", "TestRow02_KilledAfterTheReservation", "TestACrashOfTheControllerAtAnyPoint"),
				at(API, "controller/deliver", "TestAReservationFoundAfterARestartIsSentAsTheSameAttempt"),
				at(Decision, "delivery", "TestSend"),
			)},
		{3, `killed after the bytes left`,
			`same attempt again → 200 already known`, places(
				at(Processes, "test/faults", "TestRow03_KilledAfterTheBytesLeft", "TestRow03_KilledAfterTheBytesLeftAndItsPodIsOutOfReach", "TestACrashOfTheControllerAtAnyPoint"),
				at(Component, "delivery/client", "TestTheSameAttemptSentAgainHasOneEffect"),
				at(Decision, "delivery", "TestSend"),
			)},
		{4, `killed after 202`,
			`re-attach shows it running`, places(
				at(Processes, "test/faults", "TestRow04_KilledAfterTheAcceptWasTold", "TestACrashOfTheControllerAtAnyPoint"),
				at(Kubelet, "test/e2e", "TestControllerKilled"),
				at(API, "controller/deliver", "TestARunGoesOnWhileTheControllerIsAwayAndIsRecordedOnReturn"),
				at(Decision, "delivery", "TestWhatTheHarnessHolds"),
			)},
		{5, `controller down 10 min while the run runs`,
			`work goes on; recorded on return`, places(
				at(Processes, "test/faults", "TestRow05_NoControllerWhileItRuns"),
				at(Kubelet, "test/e2e", "TestControllerKilled"),
				at(API, "controller/deliver", "TestARunGoesOnWhileTheControllerIsAwayAndIsRecordedOnReturn", "TestAControllerBackAfterTheDeadlineAsksBeforeItConcludes"),
				at(Decision, "delivery", "TestWhatTheHarnessHolds", "TestTheTargetFails", "TestAControllerBackAfterTheDeadlineRecordsTheRealResult"),
			)},
		{6, `killed between result and record`,
			`fetched again; one record`, places(
				at(Processes, "test/faults", "TestRow06_KilledBetweenResultAndRecord", "TestACrashOfTheControllerAtAnyPoint"),
				at(API, "controller/deliver", "TestTheHarnessKeepsAResultUntilItIsRecorded"),
				at(Kubelet, "test/e2e", "TestControllerKilled"),
				at(Decision, "delivery", "TestOrphan"),
			)},
		{7, `two controllers at once`,
			`one reservation wins, sends are idempotent, one record`, places(
				at(Processes, "test/faults", "TestRow07_TwoControllersAtOnce"),
				at(API, "controller/deliver", "TestTwoControllersAtOnceDeliverOnce"),
				at(Component, "controller/run", "TestARunThatChangesBeforeItsPodIsMadeGetsNone"),
				at(Component, "controller/schedule", "TestWhoseTheRunIsThatAnotherMadeMeanwhile"),
				at(Decision, "delivery", "TestSend", "TestWhatTheHarnessHolds"),
			)},
		{8, `leader frozen 20 s (SIGSTOP), another leads, SIGCONT`,
			`its writes fail on the resource version; nothing twice`, places(
				at(Processes, "test/faults", "TestRow08_TheLeaderIsFrozenLongerThanItsLease", "TestACrashOfTheControllerAtAnyPoint"),
				at(Decision, "delivery", "TestSend", "TestWhatTheHarnessHolds"),
			)},
		{9, `cache stale by 60 s on a finished run`,
			`no send, no status change`, places(
				at(Processes, "test/faults", "TestRow09_AStaleCacheOfAFinishedRunSendsAndChangesNothing"),
				at(Component, "controller/deliver", "TestAWriteThatLostARaceIsNotRepeatedAsItWas"),
				at(API, "controller/run", "TestAStaleCacheMakesNoSecondPodAndChangesNoRecord"),
				at(Decision, "delivery", "TestRunWithoutAReservation"),
			)},
		{10, `reply to the POST dropped`,
			`looked up, not repeated as a new attempt`, places(
				at(Processes, "test/faults", "TestRow10_ALostReplyIsLookedUpAndNotSentAgain"),
				at(API, "controller/deliver", "TestALostReplyIsLookedUp"),
				at(Component, "delivery/client", "TestADroppedReplyIsUnknownUntilTheSameAttemptWasSentAgain"),
				at(Decision, "delivery", "TestSend"),
			)},
		{11, `the same POST 50 times in parallel`,
			`one 202, the rest 200`, places(
				at(Component, "delivery/server", "TestTheSameDeliveryInParallelIsAcceptedOnce"),
				at(Decision, "delivery", "TestAdmitAnswersInTheOrderOfTheContract"),
			)},
		{12, `same attempt, other goal`,
			`409; the first goes on`, places(
				at(Component, "delivery/client", "TestRefusalsAreTold"),
				at(Component, "delivery/server", "TestASecondDeliveryIsToldWhatIsKnown"),
				at(Decision, "delivery", "TestAdmitAnswersInTheOrderOfTheContract", "TestWhatTheHarnessHolds"),
			)},
		{13, `a POST delayed past its void`,
			`410`, places(
				at(Processes, "test/faults", "TestRow13_AReservationWhoseSendingStandsStillGoesNowhereElse", "TestRow13_ACancelWaitsForASendingThatStandsStill", "TestRow13_ADeliveryThatComesAfterItsVoidIsRefused"),
				at(API, "controller/deliver", "TestAReservationThatIsStillToBeSentIsNotTakenForUnsent"),
				at(Component, "delivery/server", "TestASecondDeliveryIsToldWhatIsKnown"),
				at(Decision, "delivery", "TestAdmitAnswersInTheOrderOfTheContract"),
			)},
	}
}
