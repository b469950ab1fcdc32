package faults

// networkRows are about the network and load.
func networkRows() []Row {
	return []Row{
		{23, `Pod replaced, same name / same IP`,
			`nothing accepted by the new one for the old`, places(
				at(API, "controller/deliver", "TestAReplacedPodGetsNothingOfTheOldOnes", "TestASandboxsPodThatCameBackGetsNothingOfTheOldOnes"),
				at(Component, "challenge/pinned", "TestAnyOtherKeyFailsTheHandshake"),
				at(Component, "delivery/client", "TestAnAnswerThatIsNotToThisRequestIsNotBelieved", "TestNoStrangerGetsBeyondTheHandshake"),
				at(Decision, "delivery", "TestAdmitAnswersInTheOrderOfTheContract"),
			)},
		{24, `Pod unreachable 2 min, then back`,
			`ContactLost, then recorded once`, places(
				at(Decision, "delivery", "TestWhatTheHarnessHolds", "TestTheTargetFails"),
			)},
		{25, `Pod unreachable past the deadline`,
			`OutcomeUnknown; a later result is an Event`, places(
				at(API, "controller/deliver", "TestAResultAfterTheRecordIsAnEvent"),
				at(Decision, "delivery", "TestTheTargetFails", "TestOrphan"),
			)},
		{26, `half-open TCP, dropped packets`,
			`other Pods unaffected; recovery within two polls`, places(
				at(Processes, "test/faults", "TestNothingBlocks"),
				at(API, "controller/deliver", "TestHungTargetsDelayNobodyElse", "TestHungTargetsLeaveTheNextOneItsLatency"),
				at(Component, "delivery/client", "TestAHalfOpenPeerCostsABoundedWait"),
			)},
		{27, `a stranger answers on the Pod's address, with any status`,
			`nothing sent, nothing believed`, places(
				at(Processes, "test/faults", "TestRow27_AStrangerAtTheAddressHearsNothingAndIsNotBelieved"),
				at(Kubelet, "test/e2e", "TestStrangerInAReadyPod", "TestStranger"),
				at(API, "controller/deliver", "TestAStrangerAtThePodsAddressGetsNothingAndTheRunSaysSo"),
				at(Component, "challenge/pinned", "TestAnyOtherKeyFailsTheHandshake"),
				at(Component, "delivery/client",
					"TestAStrangerIsSentNothingAndNotBelieved",
					"TestAStrangerThatTakesOverAnAddressGetsNoGoal",
					"TestAWrongAnswerOnAProvenConnectionIsANetworkFault",
					"TestNoStrangerGetsBeyondTheHandshake"),
				at(Component, "delivery/server", "TestAnotherPodsAnswerDoesNotVerify"),
				at(Decision, "delivery", "TestARefusalSaysWhy", "TestTheTargetFails", "TestWhatAReplyProves"),
			)},
		{28, `429 for 1,000 runs; 503 storm`,
			`no loss counted; other Agents keep their latency`, places(
				at(API, "controller/deliver", "TestBusyIsNoLoss", "TestHungTargetsDelayNobodyElse", "TestHungTargetsLeaveTheNextOneItsLatency"),
				at(Decision, "delivery", "TestARefusalSaysWhy", "TestNotTaken"),
			)},
		{29, `API server down 5 min mid-run`,
			`leader gives up its lease and comes back; one record`, places(
				at(Processes, "test/faults", "TestRow29_TheAPIServerIsAwayWhileARunEnds"),
			)},
		{30, `API write 409 / 500 / committed-but-504 at each write`,
			`converges`, places(
				at(Processes, "test/faults", "TestRow30_EveryWriteMayFailOrBeDoneAndDenied"),
				at(Processes, "test/faults", "TestACrashOfTheControllerAtAnyPoint"),
				at(API, "controller/deliver", "TestTheHarnessKeepsAResultUntilItIsRecorded", "TestOnlyNotFoundProvesAbsence"),
				at(API, "controller/deliver", "TestAWriteThatLostARaceIsMadeAgain", "TestAWriteThatWasCommittedThoughItsReplyWasLostConverges"),
			)},
	}
}
