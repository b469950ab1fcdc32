package faults

// restRows are about the long tail.
func restRows() []Row {
	return []Row{
		{48, `container restarts after its Secret is gone`,
			`CredentialLost, cordon, recast`, places(
				at(Processes, "test/faults", "TestRow48_TheContainerRestartsAfterItsSecretIsGone", "TestRow48_TheContainerEndsAfterItsSecretIsGone"),
				at(API, "controller/agent", "TestARunThatLostItsSecretIsReplaced"),
				at(Decision, "controller/agent", "TestDecideBringsTheStandingRunsToWhatTheAgentSays"),
			)},
		{49, `controller and harness one version apart, in both orders, with work in flight`,
			`goes on; 406 is a waiting reason`, places(
				at(Decision, "delivery", "TestARefusalSaysWhy", "TestNotTaken"),
			)},
		{50, `Agent deleted and made again under the same name with runs waiting`,
			`AgentNotFound for the old UID's runs`, places(
				at(Processes, "test/faults", "TestRow50_TheAgentIsMadeAgainUnderItsName"),
				at(API, "controller/deliver", "TestWhatMayNotRunEnds", "TestANewAgentOfThatNameInheritsNoWaitingRuns"),
				at(Decision, "delivery", "TestRunWithoutAReservation", "TestWhatTheHarnessHolds"),
			)},
		{51, `our label removed from a live Pod`,
			`not taken for gone`, places(
				at(Processes, "test/faults", "TestRow51_OurLabelIsTakenAway"),
				at(API, "controller/deliver", "TestOnlyNotFoundProvesAbsence"),
				at(API, "controller/agent", "TestAPodThatIsDeletedEndsItsRun"),
				at(API, "controller/deliver", "TestAPodWithoutItsLabelIsNotTakenForGone"),
				at(API, "controller/run", "TestAOneShotPodWithoutItsLabelIsNotTakenForGone"),
				at(Component, "controller/run", "TestAPodThatOnlyTheCacheLacksIsNotGone"),
				at(Decision, "controller/run", "TestStatusOfAOneShotRunFollowsItsPod", "TestStatusFollowsThePod"),
				at(Decision, "delivery", "TestTheTargetFails"),
			)},
		{52, `cancel of one of two turns in the same harness, by force`,
			`the other ends by itself`, places(
				at(Processes, "test/faults", "TestRow52_OneOfTwoCancelledByForce"),
				at(Component, "runtime/process", "TestEndLeavesOtherAgentsAndTheirStraysAlone"),
				at(Component, "runtime/standing", "TestEndingOneTurnByForceLeavesTheOtherAlone"),
			)},
		{53, `harness down, its accepted run deleted, harness back`,
			"voided if not started by then, else stopped; `startWithinSeconds` bounds it without a controller", places(
				at(Processes, "test/faults", "TestRow53_DeletedWhileTheHarnessIsDown", "TestRow53_TooLateToStartWithoutAController"),
				at(API, "controller/deliver", "TestTheWorkOfADeletedRunIsStopped"),
				at(Clock, "delivery/server", "TestAnAttemptThatDoesNotStartInTimeIsVoided"),
				at(Decision, "delivery", "TestOrphan"),
			)},
		{54, `accepted, recorded, harness restarted, then the same attempt sent by a frozen leader`,
			`200 or 410; never run again`, places(
				at(Processes, "test/faults", "TestRow54_AFrozenLeaderSendsWhatWasRecordedAndForgotten"),
				at(Processes, "cmd/harness", "TestAKilledHarnessKeepsWhatItPromised"),
				at(Component, "delivery/journal", "TestARestartSettlesWhatTheLastBootLeft"),
				at(Component, "delivery/server", "TestASecondDeliveryIsToldWhatIsKnown", "TestAForgottenAttemptIsGoneAndNeverRunsAgain"),
				at(Decision, "delivery", "TestAdmitAnswersInTheOrderOfTheContract", "TestWhatTheHarnessHolds"),
				at(Random, "delivery", "TestAttemptsOfARunKeepTheirInvariantsInAnyOrder"),
			)},
		{55, `reply to the accept lost, then the harness answers 503 to the second send`,
			`not given back; resolved on the same Pod`, places(
				at(Processes, "test/faults", "TestRow55_TheAcceptsReplyIsLostAndTheHarnessDrains"),
				at(Component, "delivery/client", "TestASecondSendThatIsRefusedKeepsItsCount"),
				at(Component, "delivery/server", "TestASecondDeliveryIsToldWhatIsKnown"),
				at(Decision, "controller/deliver", "TestWhatALinkForgotMayHaveLeft"),
				at(Decision, "delivery", "TestAdmitAnswersInTheOrderOfTheContract", "TestNotTaken"),
			)},
		{56, `terminal write refused by the API server as too large or invalid`,
			`cut further, recorded with the cut said; never a loop`, places(
				at(Processes, "test/faults", "TestRow56_ARefusedRecordIsCut"),
				at(Component, "controller/record", "TestARefusedRecordIsCutAndNotTriedForEver"),
				at(Component, "controller/run", "TestARefusedRecordOfAOneShotRunIsCut"),
				at(Decision, "delivery", "TestARefusedRecordShrinksAndStops"),
			)},
	}
}
