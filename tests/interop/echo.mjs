// Prints what a server answers: its status and its text.
const answer = await fetch(process.argv[2]);
console.log(JSON.stringify({ status: answer.status, text: await answer.text() }));
